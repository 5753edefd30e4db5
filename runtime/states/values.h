// states/values.h: measurements of states of the engine.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "circuit/run_seeds.h"
#include "measurements/measuring.h"
#include "states/states.h"

namespace bellhop::engine {

// Rows of a batch, those in the lanes of a state; or the one circuit that there is.
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

// Measures the rows in state 0, into the outputs if there are such. With `bras`, which
// begin with state 1, it makes one of each expectation value: O ket.
void measure(States& states, const Measuring& measuring, const RowRange& rows,
             std::vector<Amplitudes>* bras, const Sampling& sampling = {});

}  // namespace bellhop::engine
