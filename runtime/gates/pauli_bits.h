// gates/pauli_bits.h: a Pauli word. Plain data, which the engine reads too.
#pragma once

#include <cstdint>

namespace bellhop {

// A Pauli word as bits of an amplitude's index: wire 0 of n is bit n - 1.
struct PauliBits {
  std::uint64_t flips = 0;  // wires with X or Y
  std::uint64_t signs = 0;  // wires with Y or Z
  unsigned y_factors = 0;   // number of wires with Y
};

}  // namespace bellhop
