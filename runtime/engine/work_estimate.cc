// engine/work_estimate.cc: how long the rows of a batch take, roughly.
#include "engine/work_estimate.h"

#include <algorithm>

#include "compiled_gates/plan.h"
#include "gates/gate_table.h"
#include "kernels/operation.h"

namespace bellhop::engine {
namespace {

// How long one thread takes for an operation, and for each amplitude of each row in it:
// of a row alone, and of rows in lanes. Measured with 4 to 12 qubits.
struct Nanoseconds {
  double operation;
  double amplitude;
};
constexpr Nanoseconds kAlone{28, 0.27};
constexpr Nanoseconds kInLanes{45, 0.24};

// The states of rows in lanes stay in the second cache.
constexpr std::size_t kMostQubitsInLanes = 12;
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
  const double nanoseconds =
      static_cast<double>(passes) * count_operations(batch) *
      (kAlone.operation + kAlone.amplitude * count_amplitudes(batch));
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::min(nanoseconds, 1e15)));
}

bool are_lanes_worthwhile(const Session& batch, std::size_t lanes, std::size_t states) {
  const std::size_t bytes = (bytes_of_amplitude(batch.beginning->precision) * lanes)
                            << batch.qubits;
  if (batch.qubits > kMostQubitsInLanes || states * bytes > kMostBytesInLanes) {
    return false;
  }
  const double amplitudes = count_amplitudes(batch);
  const std::size_t groups = (batch.rows + lanes - 1) / lanes;
  const double in_lanes =
      kInLanes.operation + kInLanes.amplitude * static_cast<double>(lanes) * amplitudes;
  return static_cast<double>(groups) * in_lanes <=
         static_cast<double>(batch.rows) *
             (kAlone.operation + kAlone.amplitude * amplitudes);
}

}  // namespace bellhop::engine
