// measurements/flush_gates.cc: the end of a circuit's waiting.
#include "measurements/flush_gates.h"

#include <utility>

#include "gates/gate_table.h"
#include "measurements/mid_measurement.h"

namespace bellhop {

void apply_waiting(Session& session) {
  if (!session.waits || session.rows > 0) return;
  stop_waiting(session);
  // To apply them keeps them again where the circuit keeps what it applied.
  for (const Step& step : std::exchange(session.steps, {})) {
    if (step.gates == nullptr) {
      project_and_keep(session, step.projection);
    } else {
      step.gates->apply(session, step.params.values, step.offset, step.wires.values,
                        step.iterations);
    }
  }
}

}  // namespace bellhop
