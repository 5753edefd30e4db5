// derivatives/jacobian.h: derivatives of the recorded part of a circuit.
#pragma once

#include <cstddef>
#include <span>

#include "circuit/session.h"

namespace bellhop {

// Writes the derivative of expectation value i by differentiable parameter j to
// jacobian[i * parameters + j]; throws CircuitError.
void adjoint_jacobian(Session& session, std::span<double> jacobian, std::size_t expvals,
                      std::size_t parameters);

}  // namespace bellhop
