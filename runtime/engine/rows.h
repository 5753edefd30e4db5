// engine/rows.h: circuits in the engine, the rows of a batch and single ones.
#pragma once

#include <cstddef>

#include "circuit/session.h"
#include "measurements/measuring.h"
#include "threads/row_team.h"

namespace bellhop::engine {

// Runs what waits in a session and measures it, if the engine `runs` it (choice.h).
// Rows of a batch are shared among threads; how many that are changes no result.
void run(Session& session, const Measuring& measuring, const Jacobians* jacobians,
         const Helpers& helpers);

// How many rows the engine has run in this process.
std::size_t rows_in_engine() noexcept;

}  // namespace bellhop::engine
