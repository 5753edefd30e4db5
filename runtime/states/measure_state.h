// states/measure_state.h: measurements of states of the engine.
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

// The bras of the values, from state 1 on: a derivative of a value is 2 Re <bra|, that
// of state 0>. With cotangents there is one, the sum. Along a direction, state 1 is the
// tangent of state 0, and each bra of an expectation value has its own behind it.
// Measures too where there are outputs. The derivative of a frequency is that of how
// likely its samples were.
std::vector<Amplitudes> bras_of(States& states, const Measuring& measuring,
                                const RowRange& rows, const Jacobians& jacobians,
                                const Sampling& sampling);

}  // namespace bellhop::engine
