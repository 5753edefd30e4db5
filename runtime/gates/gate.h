// gates/gate.h: a parsed gate of a circuit.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "devices/wires.h"

namespace bellhop {

struct Gate {
  enum class Kind : std::uint8_t { kNamed, kMatrix, kState, kBasisState };

  std::string name;
  std::string site;  // the line of the user's program, or empty
  Kind kind = Kind::kNamed;
  bool inverse = false;
  bool run_time_params = false;  // whether some parameter is not a constant
  bool run_time_wires = false;
  bool has_adjoint_derivative = false;
  double scale = 1;  // times the one parameter of a named gate
  // As in the contract: below zero, -1 - index of a constant.
  std::vector<std::int64_t> slots;
  std::vector<WireCode> wires;
  std::vector<WireCode> controls;
  std::vector<WireCode> idle;  // wires with I in a Pauli word, which are only validated
  std::vector<bool> control_values;
  std::vector<std::string> pauli_word;  // empty, or one word without I
  // If all parameters are constants: their values, in the plugin's form.
  std::vector<double> params;
  std::vector<std::complex<double>> matrix;

  bool has_run_time_bits() const {
    return kind == Kind::kBasisState && run_time_params;
  }
};

// Converts a value to the bit of a basis state. `number` is the index of its wire among
// the state's wires. Throws CircuitError unless the value is 0 or 1.
inline bool bit_of(double value, std::size_t number) {
  if (value == 0 || value == 1) return value == 1;
  throw CircuitError("expected 0 or 1 for each wire, got " + std::to_string(value) +
                     " for the wire with index " + std::to_string(number) + ".");
}

}  // namespace bellhop
