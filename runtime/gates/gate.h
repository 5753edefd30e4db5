// gates/gate.h: a gate of a circuit, as it was parsed.
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
  bool run_time_params = false;  // some parameter is not a constant
  bool run_time_wires = false;
  bool has_adjoint_derivative = false;
  double scale = 1;  // times the one parameter of a named gate
  // As in the contract: below zero, -1 - index of a constant.
  std::vector<std::int64_t> slots;
  std::vector<WireCode> wires;
  std::vector<WireCode> controls;
  std::vector<WireCode> idle;  // those of a Pauli word's I: checked, and no more
  std::vector<bool> control_values;
  std::vector<std::string> pauli_word;  // empty, or the one word; without I
  // The parameters where all are constants, in the form that the plugin takes.
  std::vector<double> params;
  std::vector<std::complex<double>> matrix;

  bool has_run_time_bits() const {
    return kind == Kind::kBasisState && run_time_params;
  }
};

// A bit of a basis state, for its wire of this number; CircuitError where it is none.
inline bool bit_of(double value, std::size_t number) {
  if (value == 0 || value == 1) return value == 1;
  throw CircuitError("expected 0 or 1 for each wire, got " + std::to_string(value) +
                     " for wire number " + std::to_string(number) + " of them.");
}

}  // namespace bellhop
