// engine/work_estimate.cc: how long the rows of a batch take, roughly.
#include "engine/work_estimate.h"

#include <algorithm>

#include "compiled_gates/plan.h"
#include "gates/gate_table.h"
#include "kernels/operation.h"
#include "states/states.h"

namespace bellhop::engine {
namespace {

// An operation costs as much as so many amplitudes before it comes to the first.
constexpr double kAmplitudesOfOperation = 64;

// What an amplitude of a row in a lane costs, beside that of a row alone: no operation
// exchanges lanes.
constexpr double kCostInLane = 0.65;

// The states of rows in lanes stay in the second cache.
constexpr std::size_t kMostBytesInLanes = std::size_t{1} << 19;

// Of the first row, as all have the same gates.
double count_operations(const Session& batch) {
  double count = 0;
  for (const Step& step : batch.steps) {
    if (step.gates == nullptr) continue;
    const auto iterations = static_cast<std::size_t>(step.iterations);
    const auto part = step.gates->part(
        0, {iterations, step.params.of(0).data(), step.wires.of(0)}, batch.qubits);
    count += static_cast<double>(part.plan->program().size) *
             static_cast<double>(part.times * step.gates->parts(iterations));
  }
  return count;
}

double count_amplitudes(const Session& batch) {
  return static_cast<double>(std::size_t{1} << batch.qubits);
}

}  // namespace

std::chrono::nanoseconds estimate_row_time(const Session& batch,
                                           const Jacobians* jacobians) {
  // Going back each state is gone through twice: once for the derivative.
  const std::size_t passes = jacobians == nullptr ? 1 : 1 + 2 * (1 + jacobians->height);
  const double nanoseconds = kNanosecondsOfAmplitude * static_cast<double>(passes) *
                             count_operations(batch) *
                             (kAmplitudesOfOperation + count_amplitudes(batch));
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::min(nanoseconds, 1e15)));
}

bool are_lanes_worthwhile(const Session& batch, std::size_t lanes, std::size_t states) {
  const std::size_t bytes = (bytes_of_amplitude(batch.beginning->precision) * lanes)
                            << batch.qubits;
  if (states * bytes > kMostBytesInLanes) return false;
  const double amplitudes = count_amplitudes(batch);
  const std::size_t groups = (batch.rows + lanes - 1) / lanes;
  const double in_lanes =
      kAmplitudesOfOperation + kCostInLane * static_cast<double>(lanes) * amplitudes;
  return static_cast<double>(groups) * in_lanes <=
         static_cast<double>(batch.rows) * (kAmplitudesOfOperation + amplitudes);
}

}  // namespace bellhop::engine
