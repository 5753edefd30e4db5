// derivatives/derivative.h: derivatives of any order of a circuit's measured values
// with respect to its parameters.
//
// For one expectation value and two parameters with the rule of RX (shifts of pi/2,
// coefficients 1/2 and -1/2), the derivative of order 1 executes four circuits:
//
//   result[0] = (value(p0 + pi/2, p1) - value(p0 - pi/2, p1)) / 2
//   result[1] = (value(p0, p1 + pi/2) - value(p0, p1 - pi/2)) / 2
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/batched_view.h"
#include "circuit/session.h"
#include "derivatives/differentiation.h"
#include "threads/thread_team.h"

namespace bellhop {

// Writes the derivatives of the measured values with respect to all static-count
// parameters, or along the rows of by.basis: f64[batch, rows, values, params, ...,
// params], with an axis of params for each order, and an axis of the rows of
// by.directions. The executions are distributed over threads. A point that several
// derivatives need is executed once. Throws CircuitError.
void differentiate(Session& session, const PerRow<std::span<const double>>& params,
                   const Differentiation& by, const Measured& measured,
                   std::span<double> result, const Helpers& helpers);

// Computes the first derivative with respect to all dynamic-count parameters by their
// shift rule. Stores it in the session and returns its index there. Throws
// CircuitError.
std::int32_t save_derivative(Session& session,
                             const PerRow<std::span<const double>>& params,
                             const Differentiation& by, const Measured& measured,
                             const Helpers& helpers);

// Multiplies a derivative that the session stores with directions, and writes the
// products: f64[rows, values]. Throws CircuitError.
void multiply_saved_derivative(const Session& session, std::int32_t derivative,
                               const DirectionRows& directions,
                               std::span<double> result);

}  // namespace bellhop
