// derivatives/differentiation.h: what is differentiated, by which parameters, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/per_row.h"
#include "measurements/measurement_list.h"

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

}  // namespace bellhop
