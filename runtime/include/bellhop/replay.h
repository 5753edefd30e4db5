// bellhop/replay.h: a recorded circuit, run again with other parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bellhop/measurement_list.h"
#include "bellhop/session.h"

namespace bellhop {

// Points at which a circuit is run again: in row r, amounts[r * order + k] is added to
// parameter indices[r * order + k], for each k < order.
struct Shifts {
  std::span<const std::int32_t> indices;
  std::span<const double> amounts;
  std::size_t rows = 0;
  std::size_t order = 0;
};

// Runs the gates that `recorded` was applied again, on devices of their own, once for
// each row, and measures. The result of measurement i in row r is outputs[i].size
// numbers at index r * outputs[i].size of outputs[i].data. Throws CircuitError.
void replay(const Session& recorded, std::span<const double> params,
            const Shifts& shifts, const MeasurementList& measurements,
            std::span<const double> data, std::span<const Output> outputs);

// The same for the adjoint derivative of expectation values: one matrix a row, with a
// row for each measurement and a column for each of `params`.
void replay_jacobian(const Session& recorded, std::span<const double> params,
                     const Shifts& shifts, const MeasurementList& measurements,
                     std::span<const double> data, std::span<double> jacobians);

}  // namespace bellhop
