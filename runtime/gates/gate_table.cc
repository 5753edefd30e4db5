// gates/gate_table.cc: apply a parsed sequence of gates to a session's device.
// Parsing is in gate_parser.cc.
#include "gates/gate_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "devices/checked_size.h"
#include "interpreter/signals.h"

namespace bellhop {
namespace {

// From this many qubits on, most of a gate's time is the pass over the state.
constexpr std::size_t kFewestQubitsToFuse = 12;

struct Inputs {
  std::span<const double> params;
  std::span<const double> constants;
  std::span<const std::int32_t> dynamic_wires;

  double parameter(std::int64_t slot) const {
    return slot >= 0 ? params[slot] : constants[-1 - slot];
  }
};

// Returns the name, wires and source line of a gate, for errors; the position in its
// sequence where the line is not known.
std::string describe(const Gate& gate, std::size_t position, const Inputs& inputs) {
  // The compiler emits an identity gate to check the wires of a measurement.
  static constexpr std::string_view kMeasurement = "measurement at ";
  if (gate.site.starts_with(kMeasurement)) {
    return "A measurement on wires " + wire_list(gate.wires, inputs.dynamic_wires) +
           " (" + gate.site.substr(kMeasurement.size()) + ")";
  }
  std::string text = "Gate '" + gate.name;
  if (!gate.pauli_word.empty()) text += ":" + gate.pauli_word.front();
  text += "' on wires " + wire_list(gate.wires, inputs.dynamic_wires);
  if (!gate.controls.empty()) {
    text += " controlled by " + wire_list(gate.controls, inputs.dynamic_wires);
  }
  text += " (" +
          (gate.site.empty() ? "position " + std::to_string(position) : gate.site) +
          ")";
  return text;
}

void fill_complex(std::vector<std::complex<double>>& out, const Gate& gate,
                  const Inputs& inputs) {
  if (gate.is_real()) {
    out.resize(gate.slots.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = inputs.parameter(gate.slots[i]);
    }
    return;
  }
  out.resize(gate.slots.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = {inputs.parameter(gate.slots[2 * i]),
              inputs.parameter(gate.slots[2 * i + 1])};
  }
}

// Returns the parameters of a named gate, in the plugin's form.
const std::vector<double>& parameters_of(const Gate& gate, const Inputs& inputs,
                                         Device& device) {
  if (!gate.run_time_params) return gate.params;
  device.params.resize(gate.slots.size());
  for (std::size_t i = 0; i < gate.slots.size(); ++i) {
    device.params[i] = gate.scale * inputs.parameter(gate.slots[i]);
  }
  return device.params;
}

void apply_named(Session& session, const Gate& gate, const Inputs& inputs) {
  Device& device = *session.device;
  device.plugin->NamedOperation(gate.name, parameters_of(gate, inputs, device),
                                device.wires, gate.inverse, device.controls,
                                gate.control_values, gate.pauli_word);
}

void apply_matrix(Session& session, const Gate& gate, const Inputs& inputs) {
  Device& device = *session.device;
  if (gate.run_time_params) fill_complex(device.matrix, gate, inputs);
  device.plugin->MatrixOperation(gate.run_time_params ? device.matrix : gate.matrix,
                                 device.wires, gate.inverse, device.controls,
                                 gate.control_values);
}

void apply_state(Session& session, const Gate& gate, const Inputs& inputs) {
  // Plugins write only the amplitudes in which all other qubits are 0, and leave the
  // others unchanged.
  if (session.touched) {
    throw CircuitError(
        "a state can be prepared only before all other operations. Decompose the "
        "preparation into gates, or move it to the beginning of the circuit.");
  }
  Device& device = *session.device;
  fill_complex(device.matrix, gate, inputs);
  auto state = view_of(device.matrix.data(), device.matrix.size());
  device.plugin->SetState(state, device.wires);
}

void fill_bits(std::vector<std::int8_t>& out, const Gate& gate, const Inputs& inputs) {
  out.resize(gate.slots.size());
  for (std::size_t i = 0; i < gate.slots.size(); ++i) {
    out[i] = bit_of(inputs.parameter(gate.slots[i]), i);
  }
}

void apply_basis_state(Session& session, const Gate& gate, const Inputs& inputs) {
  Device& device = *session.device;
  fill_bits(device.bits, gate, inputs);
  if (device.bits.empty()) return;
  if (!session.touched) {
    auto bits = view_of(device.bits.data(), device.bits.size());
    device.plugin->SetBasisState(bits, device.wires);
    return;
  }
  // After other operations, flips the qubits, as PennyLane decomposes the gate: the
  // plugins' function would also clear the other wires.
  static const std::string flip = "PauliX";
  std::vector<QubitIdType> wire(1);
  for (std::size_t i = 0; i < device.bits.size(); ++i) {
    if (device.bits[i] == 0) continue;
    wire[0] = device.wires[i];
    device.plugin->NamedOperation(flip, {}, wire, false, {}, {}, {});
  }
}

// A diagonal of phases as the product of rotations about Z on each choice of its wires,
// which plugins have: the phase of index j is the sum of coefficients[s], negative
// where j and s have an odd number of ones in common.
void apply_diagonal(Session& session, const Gate& gate, const Inputs& inputs) {
  Device& device = *session.device;
  // Controls become leading wires of a larger diagonal, whose phases are zero unless
  // all controls have their values.
  std::vector<QubitIdType> wires = device.controls;
  wires.insert(wires.end(), device.wires.begin(), device.wires.end());
  std::size_t controlled = 0;
  for (const bool value : gate.control_values) controlled = 2 * controlled + value;
  std::vector<double> numbers(std::size_t{1} << wires.size());
  for (std::size_t i = 0; i < gate.slots.size(); ++i) {
    const double phase = inputs.parameter(gate.slots[i]);
    numbers[controlled * gate.slots.size() + i] = gate.inverse ? -phase : phase;
  }
  for (std::size_t step = 1; step < numbers.size(); step *= 2) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if ((i & step) != 0) continue;
      const double sum = numbers[i] + numbers[i | step];
      numbers[i | step] = numbers[i] - numbers[i | step];
      numbers[i] = sum;
    }
  }
  const double scale = 1 / static_cast<double>(numbers.size());
  device.plugin->NamedOperation("GlobalPhase", {-scale * numbers[0]}, {}, false, {}, {},
                                {});
  std::vector<QubitIdType> chosen;
  for (std::size_t s = 1; s < numbers.size(); ++s) {
    chosen.clear();
    for (std::size_t w = 0; w < wires.size(); ++w) {
      if ((s >> (wires.size() - 1 - w)) & 1) chosen.push_back(wires[w]);
    }
    device.plugin->NamedOperation("MultiRZ", {-2 * scale * numbers[s]}, chosen, false,
                                  {}, {}, {});
  }
}

void apply_gate(Session& session, const Gate& gate, const Inputs& inputs) {
  switch (gate.kind) {
    case Gate::Kind::kDiagonal:
      return apply_diagonal(session, gate, inputs);
    case Gate::Kind::kNamed:
      return apply_named(session, gate, inputs);
    case Gate::Kind::kMatrix:
      return apply_matrix(session, gate, inputs);
    case Gate::Kind::kState:
      return apply_state(session, gate, inputs);
    case Gate::Kind::kBasisState:
      return apply_basis_state(session, gate, inputs);
  }
}

// Applies successive gates on one wire as one matrix, in one pass over the state.
void apply_group(Session& session, std::span<const Gate> gates,
                 std::span<const std::uint32_t> group, const Inputs& inputs) {
  Device& device = *session.device;
  Matrix2 product = {1, 0, 0, 1};
  for (std::uint32_t index : group) {
    const Gate& gate = gates[index];
    product = matrix_of(gate, parameters_of(gate, inputs, device)) * product;
  }
  device.matrix.assign(product.begin(), product.end());
  device.plugin->MatrixOperation(device.matrix, device.wires, false, {}, {});
}

// Returns whether gates are fused. A recording needs the gates themselves, and for a
// small state a matrix takes longer.
bool fuses(const Session& session) {
  const Device& device = *session.device;
  return !session.tape.recording && device.pool.is_lightning() &&
         device.qubits.size() >= kFewestQubitsToFuse;
}

// Writes the plugin's ids of a gate's wires to the buffers of the device.
void map_gate(Device& device, const Gate& gate, const Qubits& qubits,
              std::span<const std::int32_t> dynamic_wires) {
  map_wires(device.wires, gate.wires, qubits, dynamic_wires);
  map_wires(device.controls, gate.controls, qubits, dynamic_wires);
  if (!gate.run_time_wires) return;
  if (gate.idle.empty()) return check_distinct(device.wires, device.controls);
  std::vector<QubitIdType> all;
  map_wires(all, gate.idle, qubits, dynamic_wires);
  all.insert(all.end(), device.wires.begin(), device.wires.end());
  check_distinct(all, device.controls);
}

// Returns whether a gate's dynamic wires are in range and distinct.
bool is_on_wires(const Gate& gate, std::size_t qubits,
                 std::span<const std::int32_t> dynamic_wires) {
  std::uint64_t on = 0;
  for (const auto* wires : {&gate.wires, &gate.controls, &gate.idle}) {
    for (const WireCode code : *wires) {
      const auto wire = static_cast<std::uint64_t>(resolve(code, dynamic_wires));
      if (wire >= std::min<std::size_t>(qubits, 64) || ((on >> wire) & 1) != 0) {
        return false;
      }
      on |= std::uint64_t{1} << wire;
    }
  }
  return true;
}

// Records in `tape` what the plugin records for a gate.
void note(Tape& tape, const Gate& gate, std::int32_t offset) {
  std::int64_t used = Tape::kNotDifferentiable;
  // A recording begins after state preparation, so it has no derivative with respect to
  // the amplitudes.
  if (offset == kLastParameters) tape.obstacle = gate.name;
  if (offset >= 0 && gate.run_time_params) {
    used = std::max(used, offset + gate.slots.largest());
    if (is_dynamic_count(used)) {
      const auto count = column_of(used) + 1;
      tape.dynamic_count = std::max(tape.dynamic_count, count);
    } else {
      tape.last_parameter = std::max(tape.last_parameter, used);
    }
    // The derivative with respect to a bit is zero.
    if (!gate.has_adjoint_derivative && gate.kind != Gate::Kind::kBasisState) {
      tape.obstacle = gate.name;
    }
  }
  if (gate.kind == Gate::Kind::kNamed && !gate.slots.empty()) {
    tape.parameters.push_back(used);
    if (gate.slots.size() > 1) tape.many_parameters = gate.name;
  }
  if (gate.kind == Gate::Kind::kDiagonal) {
    // The device decomposes it to rotations whose angles are not differentiated.
    tape.parameters.insert(tape.parameters.end(),
                           std::size_t{1} << (gate.wires.size() + gate.controls.size()),
                           Tape::kNotDifferentiable);
  }
}

}  // namespace

void GateTable::check_sizes(std::size_t params, std::size_t dynamic_wires,
                            std::int32_t offset, std::int32_t iterations) const {
  if (iterations < 0) {
    throw CircuitError("gates of a loop: expected 0 or more iterations, got " +
                       std::to_string(iterations) + "." + kDamaged);
  }
  const auto check = [&](const char* what, std::size_t of_iteration,
                         std::size_t given) {
    const std::size_t used = checked_product(static_cast<std::size_t>(iterations),
                                             of_iteration, "sequence of gates");
    if (used <= given) return;
    throw CircuitError("sequence of gates: expected " + std::to_string(used) + what +
                       ", got " + std::to_string(given) + "." + kDamaged);
  };
  check(" parameters", params_, params);
  check(" dynamic wires", dynamic_wires_, dynamic_wires);
  // Parameter indices have 32 bits, and the indices of a sequence are consecutive.
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::size_t taken = static_cast<std::size_t>(iterations) * params_;
  if (offset < kLastParameters ||
      (offset >= 0 && taken > kMost - static_cast<std::size_t>(offset))) {
    throw CircuitError("offset of the first of " + std::to_string(taken) +
                       " gate parameters: expected -2 to " +
                       std::to_string(kMost - std::min(taken, kMost)) + ", got " +
                       std::to_string(offset) + "." + kDamaged);
  }
}

void GateTable::check_computed(
    Session& session, const PerRow<std::span<const double>>& params,
    const PerRow<std::span<const std::int32_t>>& dynamic_wires,
    std::int32_t iterations) const {
  if (!is_computed()) return;
  Device& device = *session.device;
  const auto check = [&](const Inputs& inputs) {
    for (const Gate& gate : gates_) {
      const bool has_bits = gate.has_run_time_bits();
      if (!gate.run_time_wires && !has_bits) continue;
      if (!has_bits && is_on_wires(gate, session.qubits, inputs.dynamic_wires))
        continue;
      const auto position = static_cast<std::size_t>(&gate - &gates_[0]);
      session.attempt([&] { return describe(gate, position, inputs); },
                      [&] {
                        map_gate(device, gate, numbered(session.qubits),
                                 inputs.dynamic_wires);
                        if (!has_bits) return;
                        fill_bits(device.bits, gate, inputs);
                      });
    }
  };
  const bool is_alike =
      dynamic_wires.stride == 0 && (bits_.empty() || params.stride == 0);
  for (std::size_t row = 0; row < (is_alike ? 1 : session.rows); ++row) {
    const auto of_row = [&] {
      return "Row " + std::to_string(row) + " of a batch of " +
             std::to_string(session.rows);
    };
    const auto check_row = [&] {
      for (std::size_t t = 0; t < static_cast<std::size_t>(iterations); ++t) {
        check({params.of(row).subspan(t * params_, params_), constants_,
               dynamic_wires.of(row).subspan(t * dynamic_wires_, dynamic_wires_)});
      }
    };
    if (is_alike) {
      check_row();
    } else {
      session.attempt(of_row, check_row);
    }
  }
}

void GateTable::keep(Session& session, const GivenNumbers& given, std::int32_t offset,
                     const PerRow<std::span<const std::int32_t>>& dynamic_wires,
                     std::int32_t iterations) const {
  check_sizes(given.size(), dynamic_wires.size(), offset, iterations);
  // What there is for more iterations has the numbers of later gates.
  const auto part = [&](const auto& numbers, std::size_t of_iteration) {
    const std::size_t used = static_cast<std::size_t>(iterations) * of_iteration;
    const std::span all(numbers.values);
    return numbers.stride == 0 ? all.first(used) : all;
  };
  const auto copied = [](const auto& numbers) {
    return std::vector(numbers.begin(), numbers.end());
  };
  Step step{this, offset, iterations, {}, {}, {}};
  const bool is_single = !given.singles.values.empty();
  if (is_single && is_preparation() && session.borrows && session.rows == 0 &&
      !session.keeps_steps) {
    step.singles = part(given.singles, params_);
  } else if (is_single) {
    PerRow<std::vector<double>> params = as_doubles(given.singles);
    step.params = {KeptNumbers(std::move(params.values)), params.stride};
  } else {
    const std::span<const double> used = part(given.doubles, params_);
    step.params = {
        session.borrows ? KeptNumbers::borrow(used) : KeptNumbers(copied(used)),
        given.doubles.stride};
  }
  const PerRow<std::span<const double>> params{step.params.values, step.params.stride};
  check_computed(session, params, dynamic_wires, iterations);
  step.wires = {copied(part(dynamic_wires, dynamic_wires_)), dynamic_wires.stride};
  session.steps.push_back(std::move(step));
}

void GateTable::apply(Session& session, std::span<const double> params,
                      std::int32_t offset, std::span<const std::int32_t> dynamic_wires,
                      std::int32_t iterations) const {
  check_sizes(params.size(), dynamic_wires.size(), offset, iterations);
  const auto count = static_cast<std::size_t>(iterations);
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    const std::size_t first = iteration * params_;
    apply_iteration(session, params.subspan(first, params_),
                    offset < 0 ? offset : offset + static_cast<std::int32_t>(first),
                    dynamic_wires.subspan(iteration * dynamic_wires_, dynamic_wires_));
  }
  if (!session.keeps_steps) return;
  Step& step = session.steps.emplace_back(Step{this, offset, iterations, {}, {}, {}});
  const auto used = [count](auto given, std::size_t of_iteration) {
    const auto part = given.first(count * of_iteration);
    return std::vector(part.begin(), part.end());
  };
  if (offset < 0 || is_dynamic_count(offset)) {
    step.params.values = KeptNumbers(used(params, params_));
  }
  step.wires.values = used(dynamic_wires, dynamic_wires_);
}

void GateTable::apply_iteration(Session& session, std::span<const double> params,
                                std::int32_t offset,
                                std::span<const std::int32_t> dynamic_wires) const {
  const Inputs inputs{params, constants_, dynamic_wires};
  Device& device = *session.device;
  const auto apply_at = [&](const Gate& gate, const auto& act) {
    const auto position = [&] { return static_cast<std::size_t>(&gate - &gates_[0]); };
    check_signals();
    session.attempt([&] { return describe(gate, position(), inputs); },
                    [&] {
                      map_gate(device, gate, device.qubits, dynamic_wires);
                      act();
                    });
    session.touched = true;
    if (session.tape.recording) {
      note(session.tape, gate, offset);
    } else {
      session.tape.is_behind = session.record;
    }
  };
  if (groups_.fuses() && fuses(session)) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const auto group = groups_[i];
      const Gate& first = gates_[group.front()];
      apply_at(first, [&] {
        if (group.size() == 1) return apply_gate(session, first, inputs);
        apply_group(session, gates_, group, inputs);
      });
    }
    return;
  }
  for (const Gate& gate : gates_) {
    apply_at(gate, [&] { apply_gate(session, gate, inputs); });
  }
}

}  // namespace bellhop
