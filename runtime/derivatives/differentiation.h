// derivatives/differentiation.h: what is differentiated, by which parameters, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/batched_view.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// Shift rules. The derivative by a parameter is the sum, over the terms of its rule, of
// the coefficient times the value at the parameter plus the amount. Rule k has the
// terms from ends[k - 1] up to ends[k]. The rule of RX has two terms:
//
//   coefficients {0.5, -0.5}, amounts {pi/2, -pi/2}
struct ShiftRules {
  // The rule of each static-count parameter, or of each row of a basis. Dynamic-count
  // parameters all have the last rule.
  std::span<const std::int32_t> of_parameters;
  std::span<const std::int64_t> ends;
  std::span<const double> coefficients;
  std::span<const double> amounts;
};

// The measurements that are differentiated. Shift rules hold for values that are linear
// in the state's density matrix, which a variance is not. So if squares[i] is not
// negative, measurement i is a variance, to which the square of the expectation value
// number squares[i] is added: the sum, E[A^2], is linear.
struct Measured {
  const MeasurementList& list;
  PerRow<std::span<const double>> data;
  std::span<const std::int64_t> sizes;  // how many numbers each measurement gives
  std::span<const std::int64_t> squares;
};

// Directions in the space of dynamic-count parameters, as ids that name vectors of
// the session. For each row, a derivative is taken in all of the row's directions.
struct DirectionRows {
  std::span<const double> ids;  // [rows, order]
  std::size_t rows = 1;
  std::size_t order = 0;
};

// By which parameters a derivative is taken, and how.
struct Differentiation {
  std::size_t order = 0;     // the order by static-count parameters
  DirectionRows directions;  // of further derivatives, by dynamic-count parameters
  ShiftRules rules;
  // f64[rows, params]: if not empty, derivatives are taken along these rows instead of
  // by each static-count parameter.
  std::span<const double> basis = {};
  // Whether the last derivative is the plugin's adjoint one, and not by a shift rule.
  bool adjoint = false;
  std::size_t steps = 0;  // the circuit is differentiated as far as this step
};

}  // namespace bellhop
