// handlers/replay.cc: a recorded circuit, run again with other parameters.
#include "bellhop/replay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bellhop/gate_table.h"
#include "bellhop/jacobian.h"
#include "bellhop/mid_measurement.h"

namespace bellhop {
namespace {

void check(const Session& recorded, std::size_t params, const Shifts& shifts) {
  if (!recorded.keeps_steps) throw CircuitError("it was not begun with record = 1.");
  for (const Step& step : recorded.steps) {
    if (step.offset > static_cast<std::int64_t>(params)) {
      throw CircuitError("expected at least " + std::to_string(step.offset) +
                         " parameters, got " + std::to_string(params) + ".");
    }
  }
  for (const std::int32_t index : shifts.indices) {
    if (index < 0 || static_cast<std::size_t>(index) >= params) {
      throw CircuitError("parameter " + std::to_string(index) + " of " +
                         std::to_string(params) + " is shifted.");
    }
  }
}

// One run of the recorded gates. Its device goes back to the pool at the end, or is
// destroyed where something is thrown.
template <typename Measure>
void run_again(const Session& recorded, std::span<const double> params, bool adjoint,
               Measure&& measure) {
  DevicePool& pool = recorded.device->pool;
  Session session;
  session.device = pool.take(recorded.device->qubits.size(), recorded.device->shots);
  // Samples of a circuit with a seed are the same whatever device runs it again.
  session.device->generator.seed(recorded.device->generator());
  session.record = adjoint;
  session.tape.recording = adjoint;
  if (adjoint) session.device->plugin->StartTapeRecording();
  for (const Step& step : recorded.steps) {
    if (step.gates == nullptr) {
      project(session, step.projection);
      continue;
    }
    const auto of_step = step.offset < 0
                             ? std::span<const double>(step.params)
                             : params.subspan(static_cast<std::size_t>(step.offset));
    step.gates->apply(session, of_step, step.offset, step.wires);
  }
  measure(session);
  if (session.tape.recording) session.device->plugin->StopTapeRecording();
  pool.give(std::move(session.device));
}

// Calls run(row, parameters of the row) for each row.
template <typename Run>
void for_each_row(std::span<const double> params, const Shifts& shifts, Run&& run) {
  std::vector<double> shifted(params.begin(), params.end());
  for (std::size_t row = 0; row < shifts.rows; ++row) {
    const auto indices = shifts.indices.subspan(row * shifts.order, shifts.order);
    const auto amounts = shifts.amounts.subspan(row * shifts.order, shifts.order);
    for (std::size_t k = 0; k < shifts.order; ++k) {
      shifted[static_cast<std::size_t>(indices[k])] += amounts[k];
    }
    run(row, std::span<const double>(shifted));
    for (const std::int32_t index : indices) {
      shifted[static_cast<std::size_t>(index)] =
          params[static_cast<std::size_t>(index)];
    }
  }
}

std::string describe() { return "A circuit that is run again for its derivative"; }

}  // namespace

void replay(const Session& recorded, std::span<const double> params,
            const Shifts& shifts, const MeasurementList& measurements,
            std::span<const double> data, std::span<const Output> outputs) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), shifts);
    for_each_row(params, shifts, [&](std::size_t row, std::span<const double> shifted) {
      std::vector<Output> of_row(outputs.begin(), outputs.end());
      for (Output& output : of_row) {
        output.data = static_cast<double*>(output.data) + row * output.size;
      }
      run_again(recorded, shifted, false,
                [&](Session& session) { measurements.measure(session, data, of_row); });
    });
  });
}

void replay_jacobian(const Session& recorded, std::span<const double> params,
                     const Shifts& shifts, const MeasurementList& measurements,
                     std::span<const double> data, std::span<double> jacobians) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), shifts);
    const std::size_t expvals = measurements.size();
    const std::size_t size = expvals * params.size();
    if (jacobians.size() != shifts.rows * size) {
      throw CircuitError("expected " + std::to_string(shifts.rows * size) +
                         " numbers for its Jacobians, got " +
                         std::to_string(jacobians.size()) + ".");
    }
    for_each_row(params, shifts, [&](std::size_t row, std::span<const double> shifted) {
      run_again(recorded, shifted, true, [&](Session& session) {
        std::vector<double> values(expvals);
        std::vector<Output> outputs;
        for (double& value : values) outputs.push_back({&value, 1});
        measurements.measure(session, data, outputs);
        adjoint_jacobian(session, jacobians.subspan(row * size, size), expvals,
                         params.size());
      });
    });
  });
}

}  // namespace bellhop
