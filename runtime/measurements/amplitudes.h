// measurements/amplitudes.h: measurements computed from a state vector.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gates/pauli_bits.h"
#include "measurements/measurement.h"

namespace bellhop {

using Amplitudes = std::span<const std::complex<double>>;

PauliBits bits_of(const PauliTerm& term, std::size_t qubits);

double expectation(const PauliBits& word, Amplitudes state);

// Which outcome of `wires` amplitude i of a state of `qubits` has, of all where there
// are none; the first wire is the highest bit of an outcome.
inline std::size_t outcome_of(std::size_t i, const std::vector<std::int64_t>& wires,
                              std::size_t qubits) {
  std::size_t outcome = wires.empty() ? i : 0;
  for (const std::int64_t wire : wires) {
    const std::size_t bit = qubits - 1 - static_cast<std::size_t>(wire);
    outcome = outcome << 1 | (i >> bit & 1);
  }
  return outcome;
}

// Probabilities of these outcomes. `probability` gives those of the amplitudes.
template <typename Probability>
void probabilities(const std::vector<std::int64_t>& wires, std::size_t qubits,
                   Probability&& probability, std::span<double> out) {
  bool is_in_order = wires.empty() || wires.size() == qubits;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    is_in_order &= static_cast<std::size_t>(wires[i]) == i;
  }
  if (is_in_order) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = probability(i);
    return;
  }
  std::ranges::fill(out, 0.0);
  for (std::size_t i = 0; i < std::size_t{1} << qubits; ++i) {
    out[outcome_of(i, wires, qubits)] += probability(i);
  }
}

}  // namespace bellhop
