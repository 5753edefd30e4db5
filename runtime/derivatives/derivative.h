// derivatives/derivative.h: derivatives of any order of what a circuit measures, by all
// of its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "derivatives/differentiation.h"
#include "threads/row_team.h"

namespace bellhop {

// Writes the derivatives of measured values, by all static-count parameters or rows:
// f64[batch, rows, values, params, ..., params]. Runs are shared among threads; each
// point is run once, whichever parameters it belongs to. Throws CircuitError.
void differentiate(Session& session, const PerRow<std::span<const double>>& params,
                   const Differentiation& by, const Measured& measured,
                   std::span<double> result, const Helpers& helpers);

// Keeps the first derivative by the dynamic-count parameters with the session, made by
// their rule, and returns its number there. Throws CircuitError.
std::int32_t keep_derivative(Session& session,
                             const PerRow<std::span<const double>>& params,
                             const Differentiation& by, const Measured& measured,
                             const Helpers& helpers);

// The derivative that the session keeps under a number, in each direction: f64[rows,
// values]. Throws CircuitError.
void kept_derivative(const Session& session, std::int32_t derivative,
                     const DirectionRows& directions, std::span<double> result);

}  // namespace bellhop
