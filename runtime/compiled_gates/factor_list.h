// compiled_gates/factor_list.h: lists of gates on the same pairs of amplitudes.
#pragma once

#include <vector>

#include "gates/wire_gates.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// Makes a factor of kind kFixed with a constant unitary matrix.
Factor fixed(const Matrix2& u);

// Appends a factor. If it and the last factor are constant, multiplies them into one:
// for the gates H, S on a wire, one matrix.
void join(std::vector<Factor>& factors, const Factor& factor);

// Returns which entries of the product of the factors may be nonzero.
Operation::Form form_of(const std::vector<Factor>& factors);

}  // namespace bellhop::engine
