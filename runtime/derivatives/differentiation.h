// derivatives/differentiation.h: specify a derivative: of which measurements, with
// respect to which parameters, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/batched_view.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// Shift rules. The derivative with respect to a parameter is the sum over the terms of
// its rule: the coefficient times the value with the amount added to the parameter.
// Rule k has the terms from ends[k - 1] up to ends[k]. The rule of RX has two terms:
//
//   coefficients {0.5, -0.5}, amounts {pi/2, -pi/2}
struct ShiftRules {
  // The index of the rule of each static-count parameter, or of each row of a basis.
  // Dynamic-count parameters all have the last rule.
  std::span<const std::int32_t> of_parameters;
  std::span<const std::int64_t> ends;
  std::span<const double> coefficients;
  std::span<const double> amounts;
};

// The measurements to differentiate. Shift rules hold for values that are linear in the
// state's density matrix, which a variance is not. So if squares[i] is not negative,
// measurement i is a variance, to which the square of the expectation value with index
// squares[i] is added: the sum, E[A^2], is linear.
struct Measured {
  const MeasurementList& list;
  PerRow<std::span<const double>> data;
  std::span<const std::int64_t> sizes;  // how many values each measurement gives
  std::span<const std::int64_t> squares;
};

// Directions in the space of dynamic-count parameters, as ids of vectors that the
// session stores. For each row, one derivative along each of the row's directions is
// taken.
struct DirectionRows {
  std::span<const double> ids;  // [rows, order]
  std::size_t rows = 1;
  std::size_t order = 0;
};

// With respect to which parameters a derivative is taken, and how.
struct Differentiation {
  std::size_t order = 0;     // with respect to static-count parameters
  DirectionRows directions;  // for further derivatives in dynamic-count parameters
  ShiftRules rules;
  // f64[rows, params]: if not empty, derivatives are taken along these rows instead of
  // with respect to each static-count parameter.
  std::span<const double> basis = {};
  // Whether the last derivative is the plugin's adjoint one, instead of a shift rule.
  bool adjoint = false;
  std::size_t steps = 0;  // the number of the circuit's steps to differentiate
};

}  // namespace bellhop
