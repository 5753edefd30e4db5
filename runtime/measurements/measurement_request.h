// measurements/measurement_request.h: what runs of a circuit measure, and where it
// goes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "circuit/batched_view.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// What each run measures, and where it goes. The result of measurement i in run r is
// outputs[i].size numbers at index r * outputs[i].size of outputs[i].data.
struct Measuring {
  const MeasurementList& measurements;
  PerRow<std::span<const double>> data;
  std::span<const Output> outputs;
};

// Adjoint derivatives of measured values: for each run a matrix with a row for each
// value and a column for each parameter; or one row, its product with cotangents.
struct Jacobians {
  std::span<double> values;
  std::size_t height = 0;  // rows of a matrix
  std::size_t columns = 0;
  // The same by dynamic-count parameters; none where they are not asked for.
  std::span<double> by_dynamic_count = {};
  std::size_t dynamic_count_columns = 0;
  // One for each value of a run.
  std::optional<PerRow<std::span<const double>>> cotangents = {};
  // In the space of parameters: then each row of a matrix, of which there are twice as
  // many, has its derivative along this behind it.
  std::optional<PerRow<std::span<const double>>> direction = {};
};

}  // namespace bellhop
