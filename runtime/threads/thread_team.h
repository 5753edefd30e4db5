// threads/thread_team.h: run independent rows of work on several threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace bellhop {

// Threads of a pool, owned by someone else, that may run tasks for a call.
struct Helpers {
  using Task = void (*)(void* data);

  // The number of threads that may work at a time, including the caller.
  std::size_t threads = 1;
  // Queues a task on the pool; unused if `threads` is 1.
  std::function<void(Task, void* data)> schedule;
};

// Processes one row. A worker is used by one thread.
using RowWorker = std::function<void(std::size_t row)>;

// Calls a worker once for each row from 0 to `rows` - 1, on the calling thread and up
// to `helpers.threads` - 1 others. Calls `make` on each of these threads to make its
// worker. Returns when all rows are processed; does not wait for pool threads that have
// not started, because the pool may have other work.
//
// `expected` is the approximate duration of a row on one thread, if the caller knows
// it: helpers are then invited at once. Otherwise the first row is timed.
//
// Throws the exception of the failed row with the lowest index, whichever thread it ran
// on. All rows before it were processed; later rows may not have been.
void for_each_row(std::size_t rows, const Helpers& helpers,
                  const std::function<RowWorker()>& make,
                  std::chrono::nanoseconds expected = {});

}  // namespace bellhop
