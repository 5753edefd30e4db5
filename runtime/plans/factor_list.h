// plans/factor_list.h: the gates on the same pairs of amplitudes, in order.
#pragma once

#include <vector>

#include "gates/wire_gates.h"
#include "sweeps/operation.h"

namespace bellhop::engine {

// The factor of a matrix that is known when a plan is made.
Factor fixed(const Matrix2& u);

// Appends a factor. Two fixed ones in a row are one.
void join(std::vector<Factor>& factors, const Factor& factor);

// Which entries of the product of factors are other than zero.
Operation::Form form_of(const std::vector<Factor>& factors);

}  // namespace bellhop::engine
