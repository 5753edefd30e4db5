// compiled_gates/factor_list.h: the gates on the same pairs of amplitudes, in order.
#pragma once

#include <vector>

#include "gates/wire_gates.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// Returns the factor of a matrix of constants.
Factor fixed(const Matrix2& u);

// Appends a factor. If the last factor and this one are constant, their product takes
// their place: for the gates H, S on a wire, one matrix.
void join(std::vector<Factor>& factors, const Factor& factor);

// Returns which entries of the product of the factors may be other than zero.
Operation::Form form_of(const std::vector<Factor>& factors);

}  // namespace bellhop::engine
