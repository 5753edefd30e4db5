// states/measure_state.h: measure states of the engine.
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

// Computes the bras of the measured values, in the state vectors from index 1 on: a
// derivative of a value is 2 Re <bra|d ket>, where ket is state vector 0. With
// cotangents there is one bra, their weighted sum. Along a direction, state vector 1 is
// the tangent of the ket, and each bra of an expectation value is followed by its
// tangent. Also measures if there are outputs. The derivative of a frequency is the
// score function of its samples.
std::vector<Amplitudes> bras_of(States& states, const Measuring& measuring,
                                const RowRange& rows, const Jacobians& jacobians,
                                const Sampling& sampling);

}  // namespace bellhop::engine
