// measurements/amplitudes.cc: measurements computed from a state vector.
#include "measurements/amplitudes.h"

#include <algorithm>
#include <bit>

namespace bellhop {

double expectation(const PauliWord& word, Amplitudes state) {
  // P|i> = i^y (-1)^parity(i & signs) |i ^ flips>, since Y = i X Z. The sum is real,
  // so the power of i only chooses which part of it is wanted, and its sign.
  const bool imaginary = word.y_factors % 2 == 1;
  double sum = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::complex<double> bra = state[i ^ word.flips];
    const std::complex<double> ket = state[i];
    const double part = imaginary ? bra.real() * ket.imag() - bra.imag() * ket.real()
                                  : bra.real() * ket.real() + bra.imag() * ket.imag();
    sum += std::popcount(i & word.signs) % 2 == 0 ? part : -part;
  }
  // i^0 = 1, i^1 picks -imag, i^2 = -1, i^3 picks +imag.
  return word.y_factors % 4 == 1 || word.y_factors % 4 == 2 ? -sum : sum;
}

void probabilities(const std::vector<std::int64_t>& wires, std::size_t qubits,
                   Amplitudes state, std::span<double> out) {
  std::ranges::fill(out, 0.0);
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::size_t outcome = 0;
    for (std::int64_t wire : wires) {
      const std::size_t bit = qubits - 1 - static_cast<std::size_t>(wire);
      outcome = outcome << 1 | (i >> bit & 1);
    }
    out[outcome] += std::norm(state[i]);
  }
}

}  // namespace bellhop
