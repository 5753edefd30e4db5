// derivatives/jacobian.h: the adjoint derivatives of a circuit that its plugin
// recorded.
#pragma once

#include <cstddef>
#include <span>

#include "circuit/session.h"

namespace bellhop {

// Writes the derivative of expectation value i by static-count parameter j to
// jacobian[i * parameters + j]. Those by dynamic-count parameters are kept with the
// session. Throws CircuitError.
void adjoint_jacobian(Session& session, std::span<double> jacobian, std::size_t expvals,
                      std::size_t parameters);

}  // namespace bellhop
