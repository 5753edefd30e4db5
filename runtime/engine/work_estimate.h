// engine/work_estimate.h: how long the rows of a batch take, roughly, and how they are
// best laid out.
#pragma once

#include <chrono>
#include <cstddef>

#include "circuit/session.h"
#include "measurements/measurement_request.h"

namespace bellhop::engine {

// Returns about how long one thread takes for the gates of a row, forward and, with
// `jacobians`, back.
std::chrono::nanoseconds estimate_row_time(const Session& batch,
                                           const Jacobians* jacobians);

// Returns whether as many rows at a time as a register has lanes are faster than one
// row after another. It does not depend on the number of threads, so that numbers do
// not either.
//
// Args:
//   states: how many state vectors a row has.
bool are_lanes_worthwhile(const Session& batch, std::size_t lanes, std::size_t states);

}  // namespace bellhop::engine
