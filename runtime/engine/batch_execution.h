// engine/batch_execution.h: execute circuits in the engine: single ones, and the rows
// of batches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "circuit/session.h"
#include "measurements/measurement_request.h"
#include "measurements/mid_measurement.h"
#include "threads/thread_team.h"

namespace bellhop::engine {

// Applies the stored gates of a session and measures. The engine must support the
// circuit (`runs` in engine_dispatch.h). Distributes the rows of a batch over threads;
// results do not depend on the number of threads.
void run(Session& session, const Measuring& measuring, const Jacobians* jacobians,
         const Helpers& helpers);

// Returns the outcome of a mid-circuit measurement for all rows of a batch. Outcomes
// are enumerated: each outcome that occurs in some row is executed for all rows.
bool measure_wire_of_rows(Session& batch, const MidMeasurement& measurement,
                          std::int32_t wire, const Helpers& helpers);

// Returns how many circuits, counting each row of a batch, the engine has executed in
// this process.
std::size_t rows_in_engine() noexcept;

}  // namespace bellhop::engine
