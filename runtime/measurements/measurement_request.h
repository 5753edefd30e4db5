// measurements/measurement_request.h: what the executions of a circuit measure, and
// where the results are written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "circuit/batched_view.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// The measurements of each execution, and their outputs. The result of measurement i in
// execution r is outputs[i].size numbers at index r * outputs[i].size of
// outputs[i].data.
struct Measuring {
  const MeasurementList& measurements;
  PerRow<std::span<const double>> data;
  std::span<const Output> outputs;
};

// Adjoint derivatives of measured values. For each execution, `values` has a matrix
// with a row for each value and a column for each parameter; or one row, the product of
// cotangents with that matrix.
struct Jacobians {
  std::span<double> values;
  std::size_t height = 0;  // rows of a matrix
  std::size_t columns = 0;
  // The derivatives with respect to dynamic-count parameters; empty if not needed.
  std::span<double> by_dynamic_count = {};
  std::size_t dynamic_count_columns = 0;
  // A cotangent for each value of an execution.
  std::optional<PerRow<std::span<const double>>> cotangents = {};
  // A direction in the space of parameters. If set, the matrix has twice as many rows:
  // each row is followed by its derivative along the direction.
  std::optional<PerRow<std::span<const double>>> direction = {};
};

}  // namespace bellhop
