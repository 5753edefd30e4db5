// measurements/flush_gates.cc: apply the stored gates of a circuit on its device.
#include "measurements/flush_gates.h"

#include <span>
#include <utility>
#include <vector>

#include "devices/error.h"
#include "gates/gate_table.h"
#include "measurements/mid_measurement.h"

namespace bellhop {

void apply_waiting(Session& session) {
  if (!session.waits || session.rows > 0) return;
  if (session.has_forgotten) {
    throw CircuitError(
        "an operation of this circuit is not supported by Bellhop's engine, and "
        "follows more sequences of gates than are stored for the device plugin. Use "
        "engine='plugin'.");
  }
  stop_waiting(session);
  // Applying a step appends it again if the circuit records its steps.
  for (const Step& step : std::exchange(session.steps, {})) {
    if (step.gates == nullptr) {
      project_and_keep(session, step.projection);
    } else {
      // The session holds no float where a plugin applies the gates.
      const std::vector<double> doubles(step.singles.begin(), step.singles.end());
      const std::span<const double> params =
          doubles.empty() ? std::span<const double>(step.params.values) : doubles;
      step.gates->apply(session, params, step.offset, step.wires.values,
                        step.iterations);
    }
  }
}

}  // namespace bellhop
