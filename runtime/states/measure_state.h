// states/measure_state.h: measure states of the engine.
#pragma once

#include <cstddef>
#include <vector>

#include "measurements/measurement_request.h"
#include "states/sampled_measurements.h"
#include "states/states.h"

namespace bellhop::engine {

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
