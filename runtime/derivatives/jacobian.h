// derivatives/jacobian.h: adjoint derivatives from a plugin's recording of a circuit.
#pragma once

#include <cstddef>
#include <span>

#include "circuit/session.h"

namespace bellhop {

// Writes the derivative of expectation value i with respect to static-count parameter j
// to jacobian[i * parameters + j], for `expvals` values and `parameters` parameters.
// The session's device must have recorded the circuit. Stores the derivatives with
// respect to dynamic-count parameters in the session. Throws CircuitError.
void adjoint_jacobian(Session& session, std::span<double> jacobian, std::size_t expvals,
                      std::size_t parameters);

}  // namespace bellhop
