// states/tiles.h: process large states a tile at a time, on several threads.
//
// Sums over tiles do not depend on the number of threads. Threads check signals between
// tiles.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "compiled_gates/tiling.h"
#include "gates/pauli_bits.h"
#include "states/states.h"
#include "states/tiled_program.h"

namespace bellhop::engine {

// Like Sweeps::forward and Sweeps::backward; `jacobian` points to the column of the
// first parameter, or is null.
void forward_by_tiles(const TiledProgram& program, const States& states,
                      const Ket& ket);
void backward_by_tiles(const TiledProgram& program, const States& states,
                       const Ket& ket, std::span<const Amplitudes> bras,
                       double* jacobian, std::size_t columns);

// One number for each lane.
using Lanewise = std::array<double, 16>;

struct WeightedWord {
  PauliBits bits;
  Lanewise weight;
};

// Computes into += sum of weight * word * ket.
void add_words(std::span<const WeightedWord> words, const States& states,
               const Amplitudes& into, const Amplitudes& ket);
// Returns the sum of weight * Re <bra|word|ket>, for each lane.
Lanewise overlap_of_words(std::span<const WeightedWord> words, const States& states,
                          const Amplitudes& bra, const Amplitudes& ket);

}  // namespace bellhop::engine
