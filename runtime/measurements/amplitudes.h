// measurements/amplitudes.h: measurements computed from a state vector.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bellhop {

using Amplitudes = std::span<const std::complex<double>>;

// A product of Pauli operators, as bits of an amplitude's index: wire 0 of n is bit
// n - 1.
struct PauliWord {
  std::size_t flips = 0;   // wires with X or Y
  std::size_t signs = 0;   // wires with Y or Z
  unsigned y_factors = 0;  // number of wires with Y
};

double expectation(const PauliWord& word, Amplitudes state);

// Probabilities of the outcomes of `wires` of a state of `qubits`; the first wire is
// the highest bit of an outcome.
void probabilities(const std::vector<std::int64_t>& wires, std::size_t qubits,
                   Amplitudes state, std::span<double> out);

}  // namespace bellhop
