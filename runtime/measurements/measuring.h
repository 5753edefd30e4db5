// measurements/measuring.h: what runs of a circuit measure, and where it goes.
#pragma once

#include <cstddef>
#include <span>

#include "circuit/per_row.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// What each run measures, and where it goes. The result of measurement i in run r is
// outputs[i].size numbers at index r * outputs[i].size of outputs[i].data.
struct Measuring {
  const MeasurementList& measurements;
  PerRow<std::span<const double>> data;
  std::span<const Output> outputs;
};

// Adjoint derivatives of expectation values: for each run a matrix with a row for each
// expectation value and a column for each parameter.
struct Jacobians {
  std::span<double> values;
  std::size_t expvals = 0;
  std::size_t columns = 0;
  // The same by dynamic-count parameters; none where they are not asked for.
  std::span<double> by_dynamic_count = {};
  std::size_t dynamic_count_columns = 0;
};

}  // namespace bellhop
