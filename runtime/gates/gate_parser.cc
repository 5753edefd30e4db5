// gates/gate_parser.cc: parse and check the gate table of contract.toml.
#include <algorithm>
#include <array>

#include "circuit/code_reader.h"
#include "gates/gate_table.h"

namespace bellhop {
namespace {

constexpr std::size_t kAny = ~std::size_t{0};
constexpr std::size_t kSome = kAny - 1;  // one or more

// Numbers of parameters and wires of gates. Plugins read these gates' parameters and
// wires without checking how many there are, so the parser checks. Gates that are not
// listed are checked by the device.
struct Arity {
  std::size_t params;
  std::size_t wires;
  std::array<std::string_view, 7> names;
};

constexpr Arity kArities[] = {
    {0, 1, {"Hadamard", "PauliX", "PauliY", "PauliZ", "S", "SX", "T"}},
    {0, 2, {"CNOT", "CY", "CZ", "SWAP"}},
    {0, 3, {"CSWAP", "Toffoli"}},
    {0, kAny, {"Identity"}},
    {1, 1, {"PhaseShift", "RX", "RY", "RZ"}},
    {1, 2, {"CRX", "CRY", "CRZ", "ControlledPhaseShift", "PSWAP"}},
    {1, 2, {"IsingXX", "IsingXY", "IsingYY", "IsingZZ"}},
    {1, 2, {"SingleExcitation", "SingleExcitationMinus", "SingleExcitationPlus"}},
    {1, 4, {"DoubleExcitation", "DoubleExcitationMinus", "DoubleExcitationPlus"}},
    {1, kAny, {"GlobalPhase", "PauliRot"}},
    {1, kSome, {"MultiRZ"}},
    {2, kSome, {"PCPhase"}},
    {3, 1, {"Rot"}},
    {3, 2, {"CRot"}},
};

const Arity* find_arity(std::string_view name) {
  const auto known = std::ranges::find_if(kArities, [&](const Arity& arity) {
    return !name.empty() && std::ranges::find(arity.names, name) != arity.names.end();
  });
  return known == std::end(kArities) ? nullptr : known;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

[[noreturn]] void reject(const Gate& gate, const std::string& problem) {
  const char* end = problem.ends_with('.') ? "" : ".";
  throw CircuitError("Gate '" + gate.name + "'" +
                     (gate.site.empty() ? "" : " (" + gate.site + ")") + ": " +
                     problem + end);
}

void expect_params(const Gate& gate, std::size_t expected) {
  if (gate.slots.size() != expected) {
    reject(gate, "expected " + std::to_string(expected) + " parameters, got " +
                     std::to_string(gate.slots.size()));
  }
}

// Throws unless the gate has wires: plugins shift by the number of wires minus one.
void expect_wires(const Gate& gate) {
  if (gate.wires.empty()) reject(gate, "expected one wire or more, got none");
}

void expect_plain(const Gate& gate) {
  if (gate.inverse || !gate.controls.empty()) {
    reject(gate, "the adjoint and controls of a state preparation are not supported");
  }
}

// Reads the slots of `count` parameters; of an array of -count, where that is negative.
Slots read_slots(CodeReader& reader, std::int64_t count) {
  if (count >= 0) return Slots(reader.take(static_cast<std::size_t>(count)));
  // So that no sum of slots and sizes overflows.
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  const std::int64_t first = reader.next();
  if (count < -kMost || first > kMost || first < -kMost) {
    reader.fail(
        "size and offset of a parameter array: expected at most 2**48, got more");
  }
  return {first, static_cast<std::size_t>(-count)};
}

// 2 ** (scale * wires), in numbers of two doubles.
std::size_t data_size(const Gate& gate, std::size_t scale) {
  if (gate.wires.size() > 24) reject(gate, "too many wires for a gate with data");
  return std::size_t{2} << (scale * gate.wires.size());
}

// Throws CircuitError unless the numbers of parameters and wires fit the gate.
void check(const Gate& gate) {
  switch (gate.kind) {
    case Gate::Kind::kMatrix:
      expect_wires(gate);
      return expect_params(gate, data_size(gate, 2));
    case Gate::Kind::kState:
      expect_plain(gate);
      expect_wires(gate);
      if (2 * gate.slots.size() == data_size(gate, 1)) return;  // real ones
      return expect_params(gate, data_size(gate, 1));
    case Gate::Kind::kDiagonal:
      expect_wires(gate);
      return expect_params(gate, data_size(gate, 1) / 2);
    case Gate::Kind::kBasisState:
      expect_plain(gate);
      return expect_params(gate, gate.wires.size());
    case Gate::Kind::kNamed:
      break;
  }
  if (const Arity* known = find_arity(gate.name)) {
    expect_params(gate, known->params);
    if (known->wires == kSome) expect_wires(gate);
    if (known->wires < kSome && known->wires != gate.wires.size()) {
      reject(gate, "expected " + std::to_string(known->wires) + " wires, got " +
                       std::to_string(gate.wires.size()));
    }
  }
  if (gate.name != "PauliRot" && !gate.pauli_word.empty()) {
    reject(gate,
           "only PauliRot has a Pauli word, got '" + gate.pauli_word.front() + "'");
  }
  if (gate.name == "PauliRot") {
    if (gate.pauli_word.empty()) reject(gate, "expected a Pauli word, as PauliRot:XYZ");
    const std::string& word = gate.pauli_word.front();
    if (word.find_first_not_of("IXYZ") != word.npos ||
        word.size() != gate.wires.size()) {
      reject(gate, "expected one of I, X, Y, Z for each of " +
                       std::to_string(gate.wires.size()) + " wires, got '" + word +
                       "'");
    }
  }
}

// Removes the I factors of a Pauli word, which plugins would treat as X. A word of only
// I changes the global phase.
void drop_identities(Gate& gate) {
  std::string& word = gate.pauli_word.front();
  for (std::size_t i = word.size(); i-- > 0;) {
    if (word[i] != 'I') continue;
    word.erase(i, 1);
    gate.idle.push_back(gate.wires[i]);
    gate.wires.erase(gate.wires.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (word.empty()) {
    gate.name = "GlobalPhase";
    gate.pauli_word.clear();
    gate.scale = 0.5;
  }
}

// Sets name, kind, Pauli word and source line of a gate from the contract's text.
void set_name(Gate& gate, std::string name) {
  const std::size_t at = name.find('@');
  if (at != name.npos) {
    gate.site = name.substr(at + 1);
    name.resize(at);
  }
  const std::size_t colon = name.find(':');
  gate.name = name.substr(0, colon);
  if (colon != name.npos) gate.pauli_word = {name.substr(colon + 1)};
  gate.kind = gate.name == "QubitUnitary"           ? Gate::Kind::kMatrix
              : gate.name == "StatePrep"            ? Gate::Kind::kState
              : gate.name == "BasisState"           ? Gate::Kind::kBasisState
              : gate.name == "DiagonalQubitUnitary" ? Gate::Kind::kDiagonal
                                                    : Gate::Kind::kNamed;
}

// Computes the parameters of a gate whose parameters are all constants.
void fold_constants(Gate& gate, const std::vector<double>& constants) {
  std::vector<double> values(gate.slots.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = gate.scale * constants[static_cast<std::size_t>(-1 - gate.slots[i])];
  }
  if (gate.kind == Gate::Kind::kNamed) {
    gate.params = std::move(values);
  } else if (gate.kind == Gate::Kind::kMatrix) {
    for (std::size_t i = 0; i < values.size(); i += 2) {
      gate.matrix.emplace_back(values[i], values[i + 1]);
    }
  }
}

}  // namespace

GateTable::GateTable(std::string_view names, std::span<const std::int64_t> code,
                     std::span<const double> constants)
    : constants_(constants.begin(), constants.end()) {
  const std::vector<std::string> table = split_lines(names);
  CodeReader reader("gates", code);

  const auto read_wires = [&](Gate& gate, std::size_t count) {
    std::vector<WireCode> wires;
    for (std::int64_t number : reader.take(count)) {
      const WireCode wire{number};
      wires.push_back(wire);
      if (!is_dynamic(wire)) continue;
      gate.run_time_wires = true;
      dynamic_wires_ = std::max(dynamic_wires_, dynamic_index(wire) + 1);
    }
    return wires;
  };

  while (!reader.done()) {
    Gate& gate = gates_.emplace_back();
    set_name(gate, table[static_cast<std::size_t>(reader.next_below(
                       static_cast<std::int64_t>(table.size()), "a name"))]);
    gate.inverse = reader.next_below(2, "adjoint") == 1;
    const std::int64_t params = reader.next();
    const std::size_t wires = reader.next_count("the number of wires");
    const std::size_t controls = reader.next_count("the number of control wires");

    gate.slots = read_slots(reader, params);
    gate.wires = read_wires(gate, wires);
    gate.controls = read_wires(gate, controls);
    for (std::size_t i = 0; i < controls; ++i) {
      gate.control_values.push_back(reader.next_below(2, "a control value") == 1);
    }

    if (!gate.slots.empty()) {
      const std::int64_t largest = gate.slots.largest();
      const std::int64_t smallest = gate.slots.smallest();
      if (largest >= 0) {
        params_ = std::max(params_, static_cast<std::size_t>(largest) + 1);
        gate.run_time_params = true;
      }
      if (smallest < 0 &&
          -1 - smallest >= static_cast<std::int64_t>(constants_.size())) {
        reader.fail("index of a constant: " +
                    describe_indices(static_cast<std::int64_t>(constants_.size())) +
                    ", got " + std::to_string(-1 - smallest));
      }
    }
    // First, since an array may claim more slots than any loop could visit.
    check(gate);
    if (gate.kind == Gate::Kind::kBasisState) {
      for (std::size_t i = 0; i < gate.slots.size(); ++i) {
        const std::int64_t slot = gate.slots[i];
        if (slot >= 0) bits_.push_back(static_cast<std::size_t>(slot));
      }
    }
    if (!gate.run_time_wires) {
      try {
        check_distinct(gate.wires, gate.controls);
      } catch (const CircuitError& error) {
        reject(gate, "on wires " + wire_list(gate.wires) + ": " + error.what());
      }
    }
    if (gate.name == "PauliRot") drop_identities(gate);
    // pennylane-lightning 0.45 computes a wrong derivative of PSWAP.
    gate.has_adjoint_derivative = gate.kind == Gate::Kind::kNamed &&
                                  gate.slots.size() == 1 && gate.name != "PSWAP";
    if (!gate.run_time_params) fold_constants(gate, constants_);
  }
  groups_ = GateGroups(gates_);
  plans_ = no_plans();
}

}  // namespace bellhop
