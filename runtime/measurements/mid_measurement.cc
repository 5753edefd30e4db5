// measurements/mid_measurement.cc: mid-circuit measurements.
#include "measurements/mid_measurement.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>

namespace bellhop {
namespace {

std::array<double, 2> probabilities(Device& device) {
  std::array<double, 2> values{};
  auto view = view_of(values.data(), values.size());
  // With shots, a plugin would estimate the probabilities from samples.
  device.plugin->SetDeviceShots(0);
  device.plugin->PartialProbs(view, device.wires);
  device.plugin->SetDeviceShots(device.shots);
  return values;
}

// Returns the outcome that the device must produce, or nothing if the device draws it.
std::optional<bool> chosen_outcome(Session& session, const MidMeasurement& measurement,
                                   const std::array<double, 2>& both) {
  std::mt19937& generator = session.device->generator;
  if (measurement.postselect == MidMeasurement::kNoPostselection) {
    return session.runs.draw(both, generator);
  }
  const bool asked = measurement.postselect == 1;
  if (session.runs.postselect(both[asked], generator)) return asked;
  return std::nullopt;
}

// Marks the execution as invalid if its outcome differs from the postselected one.
void check_postselection(Session& session, const MidMeasurement& measurement,
                         bool outcome) {
  if (measurement.postselect == MidMeasurement::kNoPostselection) return;
  if (outcome != (measurement.postselect == 1)) session.runs.fail();
}

// Lets the device collapse the state to an outcome, and returns the outcome.
bool collapse(Session& session, const MidMeasurement& measurement, std::int32_t wire) {
  Device& device = *session.device;
  SampledExecutions& runs = session.runs;
  std::array<double, 2> both{};
  if (runs.redraws() || session.keeps_steps) both = probabilities(device);
  std::optional<std::int32_t> chosen;
  if (runs.redraws()) chosen = chosen_outcome(session, measurement, both);
  const bool outcome = *device.plugin->Measure(device.wires.front(), chosen);
  check_postselection(session, measurement, outcome);
  if (measurement.reset && outcome) {
    static const std::string flip = "PauliX";
    device.plugin->NamedOperation(flip, {}, device.wires, false, {}, {}, {});
  }
  if (session.keeps_steps) {
    session.steps.push_back(
        {nullptr, 0, 0, {}, {}, make_projection(wire, outcome, measurement, both)});
  }
  return outcome;
}

// Draws an outcome from the probabilities of both.
bool drawn_outcome(Session& session, const MidMeasurement& measurement,
                   const std::array<double, 2>& both) {
  std::optional<bool> chosen;
  if (session.runs.redraws()) chosen = chosen_outcome(session, measurement, both);
  if (!chosen) {
    const double number = std::uniform_real_distribution<>()(session.device->generator);
    chosen = number * (both[0] + both[1]) < both[1];
  }
  check_postselection(session, measurement, *chosen);
  return *chosen;
}

// Projects the state on the next enumerated outcome, and returns the outcome.
bool branch(Session& session, const MidMeasurement& measurement, std::int32_t wire) {
  const bool outcome =
      next_outcome(session, measurement, probabilities(*session.device));
  project_and_keep(session, {wire, outcome, measurement.reset});
  return outcome;
}

}  // namespace

Projection make_projection(std::int32_t wire, bool outcome,
                           const MidMeasurement& measurement,
                           const std::array<double, 2>& both) {
  return {wire, outcome, measurement.reset, 1 / std::sqrt(both[outcome])};
}

bool next_outcome(Session& session, const MidMeasurement& measurement,
                  const std::array<double, 2>& both) {
  if (!session.branches.is_tree()) return drawn_outcome(session, measurement, both);
  if (measurement.postselect == MidMeasurement::kNoPostselection) {
    return session.branches.next_outcome(both, session.device->generator);
  }
  if (session.branches.is_drawn()) {
    throw CircuitError(
        "internal error: postselection is not supported for shots that share an "
        "execution. Please report this as a bug in Bellhop.");
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
  // Row-major: the row is the wire's new value, the column its old one.
  device.matrix.assign(4, 0.0);
  const std::size_t from = projection.outcome;
  const std::size_t to = projection.reset ? 0 : from;
  device.matrix[2 * to + from] = projection.scale;
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
    const bool outcome = session.branches.is_tree()
                             ? branch(session, measurement, wire)
                             : collapse(session, measurement, wire);
    session.touched = true;
    return outcome;
  });
}

}  // namespace bellhop
