// callbacks/pending_regions.h: regions that were started and whose results nobody took
// yet.
#pragma once

#include <Python.h>

#include <cstdint>

namespace bellhop {

// Keeps what a region's `start` returned until the program asks for the results;
// steals it. Returns the future that names it.
uint64_t keep_pending(int64_t run_id, PyObject* finish);

// New reference, or null where no region waits under that future.
PyObject* take_pending(uint64_t future);

// Drops what a failed execution left. Any thread may call it, with the GIL or without.
void drop_pending(int64_t run_id) noexcept;

// How many regions wait.
std::size_t pending_regions() noexcept;

}  // namespace bellhop
