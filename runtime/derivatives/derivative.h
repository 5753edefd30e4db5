// derivatives/derivative.h: derivatives of any order of what a circuit measures, by all
// of its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "measurements/measurement_list.h"
#include "threads/row_team.h"

namespace bellhop {

// Shift rules: a derivative is the sum of values at shifted parameters, each times its
// coefficient. Rule k has the terms from ends[k - 1] to ends[k]; the last is that of
// all dynamic-count parameters.
struct ShiftRules {
  std::span<const std::int32_t> of_parameters;  // of each static-count one, or row
  std::span<const std::int64_t> ends;
  std::span<const double> coefficients;
  std::span<const double> amounts;
};

// What is differentiated. Where squares[i] is not negative, the square of that
// measurement is added to measurement i, since a variance is not linear in the state.
struct Measured {
  const MeasurementList& list;
  PerRow<std::span<const double>> data;
  std::span<const std::int64_t> sizes;  // how many numbers each measurement gives
  std::span<const std::int64_t> squares;
};

// Rows of directions of dynamic-count parameters, as proxies of the session: a
// derivative of order `order` is taken in those of a row.
struct DirectionRows {
  std::span<const double> proxies;  // [rows, order]
  std::size_t rows = 1;
  std::size_t order = 0;
};

// By which parameters a derivative is taken, and how.
struct Differentiation {
  std::size_t order = 0;  // by static-count parameters
  DirectionRows directions;
  ShiftRules rules;
  // Rows that are parameters in the place of the static-count ones; none where these
  // are.
  std::span<const double> basis = {};
  bool adjoint = false;   // the last derivative is the plugin's own
  std::size_t steps = 0;  // of the circuit, after which it is taken
};

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
