// compiled_gates/plan.cc: compile a sequence of gates to operations of the engine.
#include "compiled_gates/plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string_view>
#include <utility>

#include "compiled_gates/factor_list.h"
#include "gates/wire_gates.h"

namespace bellhop::engine {
namespace {

using FactorKind = Factor::Kind;

std::atomic<std::size_t> made_so_far{0};

// Gates that are another gate with some control wires.
struct ControlledGate {
  std::string_view name;
  std::string_view base;
  std::size_t controls;
};

constexpr std::array kControlledGates = {
    ControlledGate{"CNOT", "PauliX", 1},
    ControlledGate{"CY", "PauliY", 1},
    ControlledGate{"CZ", "PauliZ", 1},
    ControlledGate{"CRX", "RX", 1},
    ControlledGate{"CRY", "RY", 1},
    ControlledGate{"CRZ", "RZ", 1},
    ControlledGate{"CRot", "Rot", 1},
    ControlledGate{"Toffoli", "PauliX", 2},
    ControlledGate{"CSWAP", "SWAP", 1},
    ControlledGate{"ControlledPhaseShift", "PhaseShift", 1},
};

}  // namespace

// Appends the operations of a plan, gate by gate.
class Planner {
 public:
  Planner(Plan& plan, std::size_t qubits) : plan_(plan), last_(qubits, kNone) {}

  // Begins another iteration, whose parameters begin at `first_slot`.
  void iterate(std::size_t first_slot, const double* params,
               std::span<const std::int32_t> dynamic_wires) {
    first_slot_ = first_slot;
    params_ = params;
    dynamic_wires_ = dynamic_wires;
  }

  void add(const Gate& gate) {
    if (!fits(gate)) return refuse(gate);
    gate_ = &gate;
    controls_ = controlled_ = 0;
    for (std::size_t i = 0; i < gate.controls.size(); ++i) {
      control(bit(gate.controls[i]), gate.control_values[i]);
    }
    wires_ = gate.wires;
    switch (gate.kind) {
      case Gate::Kind::kNamed:
        if (!add_named(gate.name)) refuse(gate);
        return;
      case Gate::Kind::kMatrix:
        return add_matrix();
      case Gate::Kind::kState:
        return add_state();
      case Gate::Kind::kBasisState:
        return add_basis_state();
      case Gate::Kind::kDiagonal:
        return add_diagonal();
    }
  }

  // Stores the factors of all operations in the plan.
  void finish() {
    // The factors of each operation were collected separately, since gates on other
    // wires may come between them.
    for (std::size_t i = 0; i < plan_.operations_.size(); ++i) {
      Operation& operation = plan_.operations_[i];
      operation.factor = plan_.factors_.size();
      operation.factors = factors_[i].size();
      plan_.factors_.insert(plan_.factors_.end(), factors_[i].begin(),
                            factors_[i].end());
      operation.form = form_of(factors_[i]);
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::uint8_t place(WireCode wire) const {
    const auto number = static_cast<std::size_t>(resolve(wire, dynamic_wires_));
    return static_cast<std::uint8_t>(last_.size() - 1 - number);
  }
  std::uint64_t bit(WireCode wire) const { return std::uint64_t{1} << place(wire); }

  // Returns whether all wires of a gate are in range.
  bool fits(const Gate& gate) const {
    const auto fits = [&](WireCode wire) {
      return resolve(wire, dynamic_wires_) < static_cast<std::int64_t>(last_.size());
    };
    return std::ranges::all_of(gate.wires, fits) &&
           std::ranges::all_of(gate.controls, fits) &&
           std::ranges::all_of(gate.idle, fits);
  }

  void refuse(const Gate& gate) {
    if (plan_.not_applied_.empty()) plan_.not_applied_ = gate.name;
  }

  void control(std::uint64_t on, bool value) {
    controls_ |= on;
    if (value) controlled_ |= on;
  }

  // Appends a named gate; returns whether the engine supports it.
  bool add_named(std::string_view name) {
    const auto controlled =
        std::ranges::find(kControlledGates, name, &ControlledGate::name);
    if (controlled != kControlledGates.end()) {
      for (std::size_t i = 0; i < controlled->controls; ++i)
        control(bit(wires_[i]), true);
      wires_.erase(wires_.begin(),
                   wires_.begin() + static_cast<std::ptrdiff_t>(controlled->controls));
      return add_named(controlled->base);
    }
    if (const WireGate* known = find_wire_gate(name)) {
      if (known->axis != FactorKind::kFixed) {
        return add_on_wire({angle(known->axis, known->scale)});
      }
      const Matrix2& matrix = known->matrix;
      return add_on_wire({fixed(gate_->inverse ? adjoint_of(matrix) : matrix)});
    }
    if (name == "Identity") return true;
    if (name == "Rot") {
      return add_on_wire({angle(FactorKind::kZ, 0.5, 0), angle(FactorKind::kY, 0.5, 1),
                          angle(FactorKind::kZ, 0.5, 2)});
    }
    if (name == "GlobalPhase") return add_phase(0, 0, angle(FactorKind::kPhase, -1));
    if (name == "IsingXX") return add_rotation("XX");
    if (name == "IsingYY") return add_rotation("YY");
    if (name == "IsingZZ") return add_rotation("ZZ");
    if (name == "MultiRZ") return add_rotation(std::string(wires_.size(), 'Z'));
    if (name == "PauliRot") return add_rotation(gate_->pauli_word.front());
    if (name == "IsingXY") return add_exchange({angle(FactorKind::kX, -0.5)});
    if (name == "SWAP") return add_exchange({fixed(kPauliX)});
    if (name == "PSWAP") {
      return add_exchange(
          {angle(FactorKind::kPhase, 1), fixed(kPauliX), angle(FactorKind::kPhase, 1)});
    }
    // The parser has checked the numbers of parameters and wires only for these names.
    static constexpr std::string_view kSigns[] = {"", "Plus", "Minus"};
    if (name.starts_with("SingleExcitation") || name.starts_with("DoubleExcitation")) {
      const std::string_view sign = name.substr(16);
      if (std::ranges::find(kSigns, sign) == std::end(kSigns)) return false;
      return add_excitation(sign);
    }
    return false;
  }

  // Returns the factor of a parameter, or a fixed one if the parameter is a constant.
  Factor angle(FactorKind kind, double scale, std::size_t index = 0) const {
    Factor factor;
    factor.kind = kind;
    factor.scale = (gate_->inverse ? -scale : scale) * gate_->scale;
    const std::int64_t slot = gate_->slots[index];
    if (slot < 0) {
      const double value = plan_.constants_[static_cast<std::size_t>(-1 - slot)];
      return fixed(rotation(kind, factor.scale * value));
    }
    factor.slot = first_slot_ + static_cast<std::size_t>(slot);
    return factor;
  }

  bool add_on_wire(std::vector<Factor> factors) {
    const std::uint64_t wire = bit(wires_[0]);
    return add_pairs(wire, wire, 0, std::move(factors));
  }

  // Adds an operation that acts on |01> and |10>.
  bool add_exchange(std::vector<Factor> factors) {
    const std::uint64_t both = bit(wires_[0]) | bit(wires_[1]);
    return add_pairs(both, both, bit(wires_[1]), std::move(factors));
  }

  bool add_phase(std::uint64_t mask, std::uint64_t value, const Factor& factor) {
    return add_pairs(0, mask, value, {factor});
  }

  // Adds a rotation of |01> and |10>, or of |0011> and |1100>; Plus and Minus also
  // multiply all other states by a phase.
  bool add_excitation(std::string_view sign) {
    const std::size_t half = wires_.size() / 2;
    std::uint64_t all = 0, low = 0;
    for (std::size_t i = 0; i < wires_.size(); ++i) {
      all |= bit(wires_[i]);
      if (i >= half) low |= bit(wires_[i]);
    }
    add_pairs(all, all, low, {angle(FactorKind::kY, 0.5)});
    if (sign.empty()) return true;
    const double scale = sign == "Plus" ? 0.5 : -0.5;
    add_phase(0, 0, angle(FactorKind::kPhase, scale));
    add_phase(all, low, angle(FactorKind::kPhase, -scale));
    return add_phase(all, all ^ low, angle(FactorKind::kPhase, -scale));
  }

  // Appends factors on pairs of amplitudes, to an earlier operation if possible.
  bool add_pairs(std::uint64_t flips, std::uint64_t mask, std::uint64_t value,
                 std::vector<Factor> factors) {
    if (gate_->inverse) std::ranges::reverse(factors);
    Operation operation;
    operation.flips = flips;
    operation.mask = mask | controls_;
    operation.value = value | controlled_;
    const std::size_t place = place_of(operation);
    for (const Factor& factor : factors) join(factors_[place], factor);
    return true;
  }

  // Appends the rotation exp(-i phi P) for a Pauli word P.
  bool add_rotation(const std::string& word) {
    Operation operation;
    operation.kind = Operation::Kind::kPauliRotation;
    operation.mask = controls_;
    operation.value = controlled_;
    std::uint64_t on = controls_;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::uint64_t wire = bit(wires_[i]);
      if (word[i] != 'Z') operation.flips |= wire;
      if (word[i] != 'X') operation.signs |= wire;
      if (word[i] == 'Y') ++operation.y_factors;
      on |= wire;
    }
    Factor factor;
    factor.kind = FactorKind::kX;  // any that is not fixed
    factor.scale = (gate_->inverse ? -0.5 : 0.5) * gate_->scale;
    const std::int64_t slot = gate_->slots[0];
    if (slot < 0) {
      factor.kind = FactorKind::kFixed;  // `scale` is its angle
      factor.scale *= plan_.constants_[static_cast<std::size_t>(-1 - slot)];
    } else {
      factor.slot = first_slot_ + static_cast<std::size_t>(slot);
    }
    append(operation, on, {factor});
    return true;
  }

  void add_matrix() {
    const bool is_constant = !gate_->run_time_params;
    if (is_constant && wires_.size() == 1) {
      Matrix2 m;
      std::ranges::copy(gate_->matrix, m.begin());
      add_on_wire({fixed(gate_->inverse ? adjoint_of(m) : m)});
      return;
    }
    Operation operation;
    operation.kind = Operation::Kind::kMatrix;
    operation.mask = controls_;
    operation.value = controlled_;
    operation.is_adjoint = gate_->inverse;
    if (!take_data(operation)) return;
    if (!is_constant) note_not_differentiated();
    if (is_large(operation)) {
      plan_.has_large_operations_ = true;
    } else {
      plan_.gathered_ =
          std::max(plan_.gathered_, gathered_numbers(wires_.size(), is_constant));
    }
    append(operation, controls_ | targets_of(operation), {});
  }

  // Appends a state preparation, which must be the first operation.
  void add_state() {
    if (!plan_.operations_.empty()) return refuse(*gate_);
    Operation operation;
    operation.kind = Operation::Kind::kState;
    operation.is_real = gate_->is_real();
    if (!take_data(operation)) return;
    append(operation, targets_of(operation), {});
  }

  // Appends a diagonal gate, whose parameters are its phases.
  void add_diagonal() {
    Operation operation;
    operation.kind = Operation::Kind::kDiagonal;
    operation.mask = controls_;
    operation.value = controlled_;
    operation.is_adjoint = gate_->inverse;
    if (!take_data(operation)) return;
    plan_.has_large_operations_ = true;
    append(operation, controls_ | targets_of(operation), {});
  }

  // Appends a PauliX for each bit of a basis state that is 1.
  void add_basis_state() {
    const std::vector<WireCode> wires = wires_;
    for (std::size_t i = 0; i < wires.size(); ++i) {
      const std::int64_t slot = gate_->slots[i];
      const double value = slot < 0
                               ? plan_.constants_[static_cast<std::size_t>(-1 - slot)]
                               : params_[slot];
      if (value != 0 && value != 1) return refuse(*gate_);
      wires_ = {wires[i]};
      if (value == 1) add_on_wire({fixed(kPauliX)});
    }
  }

  // Sets where a matrix's or state's entries are; false unless they are consecutive.
  bool take_data(Operation& operation) {
    const Slots& slots = gate_->slots;
    const std::int64_t step = slots[0] < 0 ? -1 : 1;
    for (std::size_t i = 0; !slots.is_array() && i < slots.size(); ++i) {
      if (slots[i] != slots[0] + step * static_cast<std::int64_t>(i)) {
        refuse(*gate_);
        return false;
      }
    }
    operation.is_constant = slots[0] < 0;
    operation.entries = slots[0] < 0 ? static_cast<std::size_t>(-1 - slots[0])
                                     : first_slot_ + static_cast<std::size_t>(slots[0]);
    std::vector<std::uint8_t>& bits = plan_.bits_.emplace_back();
    for (const WireCode wire : wires_) bits.push_back(place(wire));
    operation.bits = bits.data();
    operation.targets = bits.size();
    return true;
  }

  static std::uint64_t targets_of(const Operation& operation) {
    std::uint64_t on = 0;
    for (std::size_t t = 0; t < operation.targets; ++t) {
      on |= std::uint64_t{1} << operation.bits[t];
    }
    return on;
  }

  void note_not_differentiated() {
    if (plan_.not_differentiated_.empty()) plan_.not_differentiated_ = gate_->name;
  }

  // Returns the index of the last operation on these wires if it acts on the same
  // pairs, or of a new one.
  std::size_t place_of(const Operation& operation) {
    const std::uint64_t on = operation.flips | operation.mask;
    const std::size_t last = last_on(on);
    if (on != 0 && last != kNone) {
      const Operation& open = plan_.operations_[last];
      const bool is_same = open.kind == Operation::Kind::kPairs &&
                           open.flips == operation.flips &&
                           open.mask == operation.mask && open.value == operation.value;
      if (is_same) return last;
    }
    return append(operation, on, {});
  }

  // Returns the last operation on some wires if it is the last on each of them.
  std::size_t last_on(std::uint64_t wires) const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < last_.size(); ++i) {
      if (((wires >> i) & 1) == 0) continue;
      if (last && *last != last_[i]) return kNone;
      last = last_[i];
    }
    return last.value_or(kNone);
  }

  std::size_t append(const Operation& operation, std::uint64_t on,
                     std::vector<Factor> factors) {
    const std::size_t place = plan_.operations_.size();
    plan_.operations_.push_back(operation);
    factors_.push_back(std::move(factors));
    for (std::size_t i = 0; i < last_.size(); ++i) {
      if ((on >> i) & 1) last_[i] = place;
    }
    return place;
  }

  Plan& plan_;
  std::vector<std::size_t> last_;  // by bit: index of the last operation on it
  std::vector<std::vector<Factor>> factors_;  // for each operation
  // State of the current iteration:
  std::size_t first_slot_ = 0;
  const double* params_ = nullptr;
  std::span<const std::int32_t> dynamic_wires_;
  // State of the current gate:
  const Gate* gate_ = nullptr;
  std::vector<WireCode> wires_;
  std::uint64_t controls_ = 0;
  std::uint64_t controlled_ = 0;
};

Plan::Plan(const GatesOfPlan& gates, const GateTable::Iterations& iterations,
           std::size_t qubits)
    : constants_(gates.constants.begin(), gates.constants.end()),
      qubits_(qubits),
      parameters_(gates.parameters * iterations.count) {
  made_so_far.fetch_add(1, std::memory_order_relaxed);
  Planner planner(*this, qubits);
  const std::size_t wires = gates.dynamic_wires;
  for (std::size_t t = 0; t < iterations.count; ++t) {
    const std::size_t first = t * gates.parameters;
    planner.iterate(first, iterations.params + first,
                    iterations.wires.subspan(t * wires, wires));
    for (const Gate& gate : gates.gates) planner.add(gate);
  }
  planner.finish();
  if (!not_applied_.empty()) return;
  if (qubits > kTileBits || has_large_operations_) {
    groups_ = groups_of(program(), qubits);
  } else {
    merged_ = merge_flips(operations_);
  }
}

std::size_t plans_made() noexcept {
  return made_so_far.load(std::memory_order_relaxed);
}

}  // namespace bellhop::engine
