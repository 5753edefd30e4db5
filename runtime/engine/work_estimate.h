// engine/work_estimate.h: how long the rows of a batch take, roughly, and how they are
// best laid out.
#pragma once

#include <chrono>
#include <cstddef>

#include "circuit/session.h"
#include "measurements/measurement_request.h"

namespace bellhop::engine {

// Estimates how long one thread takes for the gates of a row: forward, and backward too
// unless `jacobians` is null.
std::chrono::nanoseconds estimate_row_time(const Session& batch,
                                           const Jacobians* jacobians);

// Returns whether rows of a batch are executed faster in the lanes of a register,
// `lanes` rows at a time, than one after another. `states` is the number of state
// vectors of a row. The result does not depend on the number of threads, so that the
// rounding of results does not either.
bool are_lanes_worthwhile(const Session& batch, std::size_t lanes, std::size_t states);

}  // namespace bellhop::engine
