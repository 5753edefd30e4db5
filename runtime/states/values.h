// states/values.h: measurements of states of the engine.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "circuit/run_seeds.h"
#include "measurements/measuring.h"
#include "states/states.h"

namespace bellhop::engine {

// The rows of a batch whose states are in the lanes; by default, a single circuit.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 1;
};

// How rows are sampled. That of the one circuit there is draws from `generator` itself.
struct Sampling {
  std::size_t shots = 0;
  std::mt19937* generator = nullptr;
  const RunSeeds* seeds = nullptr;              // of rows of a batch
  std::vector<std::uint32_t>* drawn = nullptr;  // is given the samples of the last row
};

// Measures the rows whose states are in state vector 0, and writes the outputs, if
// there are any. Unless `bras` is null, it makes a bra of each expectation value, O
// ket, in the state vectors from number 1 on.
void measure(States& states, const Measuring& measuring, const RowRange& rows,
             std::vector<Amplitudes>* bras, const Sampling& sampling = {});

}  // namespace bellhop::engine
