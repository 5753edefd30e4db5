// threads/thread_team.h: independent rows of work, shared by several threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace bellhop {

// Threads that may help, of a pool that somebody else owns.
struct Helpers {
  using Task = void (*)(void* data);

  std::size_t threads = 1;  // that may work at a time, the caller's among them
  std::function<void(Task, void* data)> schedule;  // unused where that is one
};

// Does the work of one row after another, on one thread.
using RowWorker = std::function<void(std::size_t row)>;

// Does the work of rows 0 to `rows` - 1, each once, on the calling thread and on up to
// `helpers.threads` - 1 others; `make` makes the worker of a thread, on that thread.
// Returns when all is done. Helpers that never come, as the pool has other work, are
// not waited for.
//
// `expected` is about how long a row takes one thread, where the caller knows: then
// helpers are invited at once. Else the first row shows how long the others take.
//
// Throws what the first of the rows threw that failed, whichever thread it ran on:
// all rows before it were done, and some behind it were not.
void for_each_row(std::size_t rows, const Helpers& helpers,
                  const std::function<RowWorker()>& make,
                  std::chrono::nanoseconds expected = {});

}  // namespace bellhop
