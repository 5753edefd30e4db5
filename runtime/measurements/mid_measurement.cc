// measurements/mid_measurement.cc: measurements in the middle of a circuit.
#include "measurements/mid_measurement.h"

#include <array>
#include <cstdint>
#include <optional>

namespace bellhop {
namespace {

std::array<double, 2> probabilities(Device& device) {
  std::array<double, 2> values{};
  auto view = view_of(values.data(), values.size());
  // With shots, a plugin would estimate them.
  device.plugin->SetDeviceShots(0);
  device.plugin->PartialProbs(view, device.wires);
  device.plugin->SetDeviceShots(device.shots);
  return values;
}

bool collapse(Session& session, const MidMeasurement& measurement) {
  Device& device = *session.device;
  DrawnRuns& runs = session.runs;
  const bool is_asked = measurement.postselect != MidMeasurement::kNoPostselection;
  const bool asked = measurement.postselect == 1;
  std::optional<std::int32_t> chosen;
  if (runs.redraws()) {
    const std::array<double, 2> both = probabilities(device);
    if (!is_asked) {
      chosen = runs.draw(both, device.generator);
    } else if (runs.postselect(both[asked], device.generator)) {
      chosen = asked;
    }
  }
  const bool outcome = *device.plugin->Measure(device.wires.front(), chosen);
  if (is_asked && outcome != asked) runs.fail();
  if (measurement.reset && outcome) {
    static const std::string flip = "PauliX";
    device.plugin->NamedOperation(flip, {}, device.wires, false, {}, {}, {});
  }
  return outcome;
}

bool branch(Session& session, const MidMeasurement& measurement, std::int32_t wire) {
  const bool outcome =
      next_outcome(session, measurement, probabilities(*session.device));
  project_and_keep(session, {wire, outcome, measurement.reset});
  return outcome;
}

}  // namespace

bool next_outcome(Session& session, const MidMeasurement& measurement,
                  const std::array<double, 2>& both) {
  if (measurement.postselect == MidMeasurement::kNoPostselection) {
    return session.branches.next_outcome(both, session.device->generator);
  }
  const bool outcome = measurement.postselect == 1;
  if (const double sum = both[0] + both[1]; sum > 0) {
    session.branches.postselected(both[outcome] / sum);
  }
  return outcome;
}

void project(Session& session, const Projection& projection) {
  Device& device = *session.device;
  device.wires.assign(1, device.qubits[projection.wire]);
  // Row major: the row is where the wire goes, the column where it comes from.
  device.matrix.assign(4, 0.0);
  const std::size_t from = projection.outcome;
  const std::size_t to = projection.reset ? 0 : from;
  device.matrix[2 * to + from] = 1.0;
  device.plugin->MatrixOperation(device.matrix, device.wires, false, {}, {});
  session.touched = true;
}

void project_and_keep(Session& session, const Projection& projection) {
  project(session, projection);
  if (session.keeps_steps) session.steps.push_back({nullptr, 0, 0, {}, {}, projection});
}

bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire) {
  return attempt_mid_measurement(session, measurement, wire, [&] {
    Device& device = *session.device;
    device.wires.assign(1, device.qubits[wire]);
    const bool outcome = session.branches.is_tree() ? branch(session, measurement, wire)
                                                    : collapse(session, measurement);
    session.touched = true;
    return outcome;
  });
}

}  // namespace bellhop
