// ffi/runs.h: what a run that failed has left, wherever it is kept.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace bellhop {

// Drops what some part of the runtime keeps for a run. Any thread may call it.
using RunCleanup = void (*)(std::int64_t run_id) noexcept;

// Those of all parts, in the order in which they are called; while the module loads.
void set_run_cleanups(std::initializer_list<RunCleanup> cleanups);

// Calls them for a run that failed: nobody else would end what it began.
void release_run(std::int64_t run_id) noexcept;

}  // namespace bellhop
