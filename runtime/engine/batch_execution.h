// engine/batch_execution.h: runs circuits in the engine, single ones and the rows of
// batches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "circuit/session.h"
#include "measurements/measurement_request.h"
#include "measurements/mid_measurement.h"
#include "threads/thread_team.h"

namespace bellhop::engine {

// Runs the gates that wait in a session, and measures. The engine must be able to
// (`runs` in engine_dispatch.h). Threads share the rows of a batch; results do not
// depend on their number.
void run(Session& session, const Measuring& measuring, const Jacobians* jacobians,
         const Helpers& helpers);

// Returns the outcome of a measurement in the middle that all rows of a batch go
// through next: one that is taken in a tree, as it happens in some row.
bool measure_wire_of_rows(Session& batch, const MidMeasurement& measurement,
                          std::int32_t wire, const Helpers& helpers);

// How many rows the engine has run in this process.
std::size_t rows_in_engine() noexcept;

}  // namespace bellhop::engine
