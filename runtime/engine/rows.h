// engine/rows.h: rows of a batch in the engine.
#pragma once

#include <cstddef>

#include "circuit/session.h"
#include "measurements/measuring.h"
#include "threads/row_team.h"

namespace bellhop::engine {

// Whether the engine runs this batch, with its derivatives if they are asked for:
// gates, measurements, size and device are such that it can, and that it is faster.
bool runs(const Session& batch, const Measuring& measuring, const Jacobians* jacobians);

// What run_batch of derivatives/replay.h says; for what it runs.
void run_rows(const Session& batch, const Measuring& measuring,
              const Jacobians* jacobians, const Helpers& helpers);

// How many rows the engine has run in this process.
std::size_t rows_in_engine() noexcept;

}  // namespace bellhop::engine
