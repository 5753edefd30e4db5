// handlers/mid_measurement.cc: measurements in the middle of a circuit.
#include "bellhop/mid_measurement.h"

#include <array>

#include "bellhop/wires.h"

namespace bellhop {
namespace {

// A state that has less of an outcome does not have it.
constexpr double kImpossible = 1e-15;

double probability_of_one(Device& device) {
  std::array<double, 2> values{};
  auto view = view_of(values.data(), values.size());
  // With shots, a plugin would estimate it.
  device.plugin->SetDeviceShots(0);
  device.plugin->PartialProbs(view, device.wires);
  device.plugin->SetDeviceShots(device.shots);
  return values[1];
}

bool collapse(Device& device, std::optional<std::int32_t> outcome) {
  return *device.plugin->Measure(device.wires.front(), outcome);
}

bool postselected(Session& session, bool outcome) {
  Device& device = *session.device;
  const double one = probability_of_one(device);
  const double probability = outcome ? one : 1 - one;
  if (probability < kImpossible) {
    if (!session.tree) {
      throw CircuitError("it is to give " + std::to_string(outcome) +
                         " (postselect), which does not happen in this state.");
    }
    // Nothing collapses to a state that is not there; the run counts for nothing.
    session.branches.condition(0);
    return outcome;
  }
  if (session.tree) session.branches.condition(probability);
  return collapse(device, outcome);
}

bool measured(Session& session) {
  Device& device = *session.device;
  if (!session.tree) return collapse(device, std::nullopt);
  return collapse(device, session.branches.next_outcome(probability_of_one(device),
                                                        device.generator));
}

}  // namespace

bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire) {
  const auto describe = [&] {
    std::string text = "The mid-circuit measurement of wire " + std::to_string(wire);
    if (!measurement.site.empty()) text += " (" + measurement.site + ")";
    return text;
  };
  return session.attempt(describe, [&] {
    Device& device = *session.device;
    map_wires(device.wires, {wire}, device.qubits);
    const bool outcome = measurement.postselect == MidMeasurement::kNoPostselection
                             ? measured(session)
                             : postselected(session, measurement.postselect == 1);
    session.touched = true;
    if (measurement.reset && outcome) {
      static const std::string flip = "PauliX";
      device.plugin->NamedOperation(flip, {}, device.wires, false, {}, {}, {});
    }
    return outcome;
  });
}

}  // namespace bellhop
