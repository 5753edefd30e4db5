// engine/values.h: measurements of states of the engine.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/states.h"
#include "measurements/measuring.h"

namespace bellhop::engine {

// Rows of a batch, those in the lanes of a state; or the one circuit that there is.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 1;
};

// Measures the rows in state 0, into the outputs if there are such. With `bras`, which
// begin with state 1, it makes one of each expectation value: O ket.
void measure(States& states, const Measuring& measuring, const RowRange& rows,
             std::vector<Amplitudes>* bras);

}  // namespace bellhop::engine
