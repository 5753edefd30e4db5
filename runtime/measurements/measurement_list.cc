// measurements/measurement_list.cc: measure on a session's device.
// Parsing is in measurement_parser.cc.
#include "measurements/measurement_list.h"

#include <algorithm>
#include <array>

#include "devices/wires.h"
#include "interpreter/signals.h"
#include "measurements/samples.h"
#include "measurements/shadow_snapshots.h"

namespace bellhop {
namespace {

std::string describe(const Measurement& measurement, std::size_t position) {
  static constexpr std::array kNames = {
      "expval",      "var",       "probs",          "state", "sample",
      "frequencies", "snapshots", "snapshot means", "run"};
  static constexpr std::array kObservables = {"Identity", "PauliX",   "PauliY",
                                              "PauliZ",   "Hadamard", "Hermitian"};
  std::string text = "Measurement " + std::to_string(position) + ", " +
                     kNames[static_cast<std::size_t>(measurement.kind)];
  if (!measurement.wires.empty()) {
    text += " of wires " + wire_list(measurement.wires);
  }
  for (const ObservableStep& step : measurement.observable) {
    text += &step == measurement.observable.data() ? " of " : " ";
    switch (step.kind) {
      case ObservableStep::Kind::kNamed:
        text += kObservables[static_cast<std::size_t>(step.id)];
        text += wire_list(step.wires);
        break;
      case ObservableStep::Kind::kHermitian:
        text += "Hermitian" + wire_list(step.wires);
        break;
      case ObservableStep::Kind::kTensor:
        text += "tensor(" + std::to_string(step.operands) + ")";
        break;
      case ObservableStep::Kind::kCombination:
        text += "sum(" + std::to_string(step.operands) + ")";
        break;
    }
    if (text.size() > 200) return text + " ...";
  }
  return text;
}

// Throws CircuitError unless an output has this size and type.
void expect(const Output& output, std::size_t size, Output::Type type) {
  if (output.size == size && output.type == type) return;
  static constexpr std::array kTypes = {" real numbers", " complex numbers", " bits"};
  const auto text = [](std::size_t count, Output::Type kind) {
    return std::to_string(count) + kTypes[static_cast<std::size_t>(kind)];
  };
  throw CircuitError("expected a result of " + text(size, type) + ", got " +
                     text(output.size, output.type) + "." + kDamaged);
}

// Returns 2 ** qubits. No device has 48 qubits, and the shift must not overflow.
std::size_t dimension(std::size_t qubits) {
  if (qubits > 48)
    throw CircuitError("a result of this measurement has 2**" + std::to_string(qubits) +
                       " elements: expected at most 48 qubits. Measure fewer wires.");
  return std::size_t{1} << qubits;
}

// Builds an observable in the plugin, and returns the plugin's id.
ObsIdType build(Device& device, const std::vector<ObservableStep>& steps,
                std::span<const double> data) {
  const Plugin& plugin = device.plugin;
  auto& stack = device.observables;
  stack.clear();
  device.observable_load += steps.size();
  const auto pop = [&](std::size_t count) -> const std::vector<ObsIdType>& {
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(count);
    device.operands.assign(first, stack.end());
    stack.erase(first, stack.end());
    return device.operands;
  };
  for (const ObservableStep& step : steps) {
    map_wires(device.wires, step.wires, device.qubits);
    switch (step.kind) {
      case ObservableStep::Kind::kNamed:
        stack.push_back(plugin->Observable(step.id, {}, device.wires));
        break;
      case ObservableStep::Kind::kHermitian: {
        const std::size_t size = std::size_t{1} << (2 * step.wires.size());
        device.matrix.resize(size);
        for (std::size_t i = 0; i < size; ++i) {
          device.matrix[i] = {data[step.data + 2 * i], data[step.data + 2 * i + 1]};
        }
        device.observable_load += size;
        stack.push_back(
            plugin->Observable(ObsId::Hermitian, device.matrix, device.wires));
        break;
      }
      case ObservableStep::Kind::kTensor:
        stack.push_back(plugin->TensorObservable(pop(step.operands)));
        break;
      case ObservableStep::Kind::kCombination: {
        const auto coefficients = data.subspan(step.data, step.operands);
        device.params.assign(coefficients.begin(), coefficients.end());
        stack.push_back(
            plugin->HamiltonianObservable(device.params, pop(step.operands)));
        break;
      }
    }
  }
  return stack.back();
}

void measure_expval(Session& session, const Measurement& measurement,
                    std::span<const double> data, const Output& output) {
  expect(output, 1, Output::Type::kReal);
  if (session.record && !session.tape.recording) {
    throw CircuitError(
        "measurements after a variance are not supported in a circuit that the device "
        "differentiates. Measure variances last.");
  }
  Device& device = *session.device;
  const ObsIdType observable = build(device, measurement.observable, data);
  *static_cast<double*>(output.data) = device.plugin->Expval(observable);
  if (session.tape.recording) ++session.tape.expvals;
}

void measure_var(Session& session, const Measurement& measurement,
                 std::span<const double> data, const Output& output) {
  expect(output, 1, Output::Type::kReal);
  Device& device = *session.device;
  // A recorded variance makes the plugin raise for all derivatives. Recording cannot be
  // resumed without losing the recorded operations.
  if (session.tape.recording) {
    device.plugin->StopTapeRecording();
    session.tape.recording = false;
  }
  const ObsIdType observable = build(device, measurement.observable, data);
  *static_cast<double*>(output.data) = device.plugin->Var(observable);
}

void measure_probs(Session& session, const Measurement& measurement,
                   const Output& output) {
  Device& device = *session.device;
  const bool all = measurement.wires.empty();
  expect(output, dimension(all ? device.qubits.size() : measurement.wires.size()),
         Output::Type::kReal);
  map_wires(device.wires, measurement.wires, device.qubits);
  auto view = view_of(static_cast<double*>(output.data), output.size);
  if (all) {
    device.plugin->Probs(view);
  } else {
    device.plugin->PartialProbs(view, device.wires);
  }
}

// The outcomes of all wires, one row per shot, drawn once for all measurements of a
// list.
class Samples {
 public:
  explicit Samples(Device& device) : device_(device) {}

  std::size_t shots() const { return device_.shots; }

  // Returns the first row; each row has a number for every wire. Draws the samples on
  // first use.
  const double* rows() {
    if (drawn_) return device_.samples.data();
    if (device_.shots == 0)
      throw CircuitError(
          "samples: expected 1 shot or more, got 0. Set the number of shots with "
          "qml.set_shots.");
    const std::size_t columns = device_.qubits.size();
    device_.pool.expect_memory(Memory::kFree, {columns, 0, device_.shots});
    // In pieces, since the memory is cleared.
    device_.samples.clear();
    device_.samples.reserve(device_.shots * columns);
    for_each_piece(device_.shots * columns,
                   [&](std::size_t, std::size_t end) { device_.samples.resize(end); });
    DataView<double, 2> samples{
        device_.samples.data(), 0, {device_.shots, columns}, {columns, 1}};
    device_.plugin->Sample(samples);
    drawn_ = true;
    return device_.samples.data();
  }

 private:
  Device& device_;
  bool drawn_ = false;
};

// Returns a function (shot, wire) that reads an outcome.
auto bits_of(const double* rows, std::size_t qubits) {
  return [rows, qubits](std::size_t shot, std::size_t wire) {
    return rows[shot * qubits + wire] != 0;
  };
}

void measure_samples(Session& session, const Measurement& measurement, Samples& samples,
                     const Output& output) {
  Device& device = *session.device;
  const std::size_t qubits = device.qubits.size();
  const std::size_t columns =
      measurement.wires.empty() ? qubits : measurement.wires.size();
  const double* rows = samples.rows();
  expect(output, samples.shots() * columns, Output::Type::kBit);
  map_wires(device.wires, measurement.wires, device.qubits);  // for its check
  write_samples(measurement, qubits, ShotNumbers(samples.shots()),
                bits_of(rows, qubits),
                std::span(static_cast<std::uint8_t*>(output.data), output.size));
}

void check_shots(const Measurement& measurement, std::size_t shots) {
  if (measurement.shots() == shots) return;
  throw CircuitError("shot groups: expected " + std::to_string(shots) +
                     " shots in all, got " + std::to_string(measurement.shots()) + "." +
                     kDamaged);
}

void measure_frequencies(Session& session, const Measurement& measurement,
                         Samples& samples, const Output& output) {
  Device& device = *session.device;
  const double* rows = samples.rows();
  check_shots(measurement, samples.shots());
  expect(output, measurement.groups.size() * dimension(measurement.wires.size()),
         Output::Type::kReal);
  map_wires(device.wires, measurement.wires, device.qubits);
  map_wires(device.wires, measurement.signs, device.qubits);
  write_frequencies(measurement, ShotNumbers(samples.shots()),
                    bits_of(rows, device.qubits.size()),
                    std::span(static_cast<double*>(output.data), output.size));
}

void measure_snapshots(Device& device, const Measurement& measurement,
                       std::span<const double> data, const Output& output) {
  expect(output, 2 * device.shots * measurement.wires.size(), Output::Type::kBit);
  write_snapshots(device, measurement, data,
                  std::span(static_cast<std::uint8_t*>(output.data), output.size));
}

void measure_snapshot_means(Device& device, const Measurement& measurement,
                            std::span<const double> data, const Output& output) {
  check_shots(measurement, device.shots);
  const std::size_t words = measurement.words.size() / measurement.wires.size();
  expect(output, measurement.groups.size() * words, Output::Type::kReal);
  write_snapshot_means(device, measurement, data,
                       std::span(static_cast<double*>(output.data), output.size));
}

void measure_state(Session& session, const Output& output) {
  expect(output, dimension(session.device->qubits.size()), Output::Type::kComplex);
  auto view = view_of(static_cast<std::complex<double>*>(output.data), output.size);
  session.device->plugin->State(view);
}

}  // namespace

void MeasurementList::measure(Session& session, std::span<const double> data,
                              std::span<const Output> outputs) const {
  if (outputs.size() != measurements_.size()) {
    throw CircuitError("results of a circuit: expected one for each of " +
                       std::to_string(measurements_.size()) + " measurements, got " +
                       std::to_string(outputs.size()) + "." + kDamaged);
  }
  if (data.size() < data_) {
    throw CircuitError("data of observables: expected " + std::to_string(data_) +
                       " elements, got " + std::to_string(data.size()) + "." +
                       kDamaged);
  }
  Samples samples(*session.device);
  const auto take = [&](std::size_t i) {
    const Measurement& measurement = measurements_[i];
    session.attempt(
        [&] { return describe(measurement, i); },
        [&] {
          switch (measurement.kind) {
            case MeasurementKind::kExpval:
              return measure_expval(session, measurement, data, outputs[i]);
            case MeasurementKind::kVar:
              return measure_var(session, measurement, data, outputs[i]);
            case MeasurementKind::kProbs:
              return measure_probs(session, measurement, outputs[i]);
            case MeasurementKind::kState:
              return measure_state(session, outputs[i]);
            case MeasurementKind::kSample:
              return measure_samples(session, measurement, samples, outputs[i]);
            case MeasurementKind::kFrequencies:
              return measure_frequencies(session, measurement, samples, outputs[i]);
            case MeasurementKind::kSnapshots:
              return measure_snapshots(*session.device, measurement, data, outputs[i]);
            case MeasurementKind::kSnapshotMeans:
              return measure_snapshot_means(*session.device, measurement, data,
                                            outputs[i]);
            case MeasurementKind::kRun:
              throw CircuitError(
                  "shots that share an execution are supported only by Bellhop's "
                  "engine, which does not support an operation of this circuit. Use "
                  "qjit(engine='plugin'), which executes each shot by itself.");
          }
        });
  };
  // A variance ends the recording, so all other measurements come first. Measurements
  // do not change the state.
  bool variances = false;
  for (std::size_t i = 0; i < measurements_.size(); ++i) {
    if (measurements_[i].kind == MeasurementKind::kVar) {
      variances = true;
    } else {
      take(i);
    }
  }
  for (std::size_t i = 0; variances && i < measurements_.size(); ++i) {
    if (measurements_[i].kind == MeasurementKind::kVar) take(i);
  }
}

}  // namespace bellhop
