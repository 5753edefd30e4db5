// states/tiles.h: through large states a tile at a time, shared among threads.
//
// What is summed over tiles does not depend on how many threads there are. Between
// tiles threads look for signals.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "compiled_gates/tiling.h"
#include "gates/pauli_bits.h"
#include "states/states.h"

namespace bellhop::engine {

// An iteration of a program, in groups, at its parameters, which move along a direction
// unless that is null.
struct TiledProgram {
  const Program& whole;
  const std::vector<Group>& groups;
  const double* parameters;
  const double* direction;
  // Of a preparation, in place of `parameters`.
  const float* singles = nullptr;
};

// As Sweeps::forward and ::backward; `jacobian` is at the column of the first
// parameter, or null.
void forward_by_tiles(const TiledProgram& program, const States& states,
                      const Ket& ket);
void backward_by_tiles(const TiledProgram& program, const States& states,
                       const Ket& ket, std::span<const Amplitudes> bras,
                       double* jacobian, std::size_t columns);

// A number for each lane.
using Lanewise = std::array<double, 16>;

struct WeightedWord {
  PauliBits bits;
  Lanewise weight;
};

// into += sum of weight * word ket.
void add_words(std::span<const WeightedWord> words, const States& states,
               const Amplitudes& into, const Amplitudes& ket);
// The sum of weight * Re <bra|word|ket>, one for each lane.
Lanewise overlap_of_words(std::span<const WeightedWord> words, const States& states,
                          const Amplitudes& bra, const Amplitudes& ket);

}  // namespace bellhop::engine
