// states/measure_state.h: measurements of states of the engine.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "circuit/execution_seeds.h"
#include "measurements/measurement_request.h"
#include "measurements/samples.h"
#include "states/states.h"

namespace bellhop::engine {

// The rows of a batch whose states are in the lanes; by default, a single circuit.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 1;
};

// How rows are sampled. That of the one circuit there is draws from `generator` itself.
struct Sampling {
  ShotNumbers shots;
  std::mt19937* generator = nullptr;
  const RunSeeds* seeds = nullptr;              // of rows of a batch
  std::vector<std::uint32_t>* drawn = nullptr;  // is given the samples of the last row
};

// Measures the rows whose states are in state vector 0, and writes the outputs.
void measure(States& states, const Measuring& measuring, const RowRange& rows,
             const Sampling& sampling);

// The bras of the values, from state 1 on: a derivative of a value is 2 Re <bra|, that
// of state 0>. With cotangents there is one, the sum. Along a direction, state 1 is the
// tangent of state 0, and each bra of an expectation value has its own behind it.
// Measures too where there are outputs. The derivative of a frequency is that of how
// likely its samples were.
std::vector<Amplitudes> bras_of(States& states, const Measuring& measuring,
                                const RowRange& rows, const Jacobians& jacobians,
                                const Sampling& sampling);

}  // namespace bellhop::engine
