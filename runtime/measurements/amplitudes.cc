// measurements/amplitudes.cc: measurements computed from a state vector.
#include "measurements/amplitudes.h"

#include <bit>

namespace bellhop {

PauliBits bits_of(const PauliTerm& term, std::size_t qubits) {
  PauliBits bits;
  for (std::size_t i = 0; i < term.wires.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << (qubits - 1 - term.wires[i]);
    const ObsId factor = term.factors[i];
    if (factor == ObsId::PauliX || factor == ObsId::PauliY) bits.flips |= bit;
    if (factor == ObsId::PauliY || factor == ObsId::PauliZ) bits.signs |= bit;
    if (factor == ObsId::PauliY) ++bits.y_factors;
  }
  return bits;
}

double expectation(const PauliBits& word, Amplitudes state) {
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

}  // namespace bellhop
