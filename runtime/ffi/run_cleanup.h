// ffi/run_cleanup.h: what a run that failed has left, wherever it is kept.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace bellhop {

// Drops what some part of the runtime keeps for a run. Any thread may call it.
using RunCleanup = void (*)(std::int64_t run_id) noexcept;

// Those of all parts, in the order in which they are called; while the module loads.
void set_run_cleanups(std::initializer_list<RunCleanup> cleanups);

// Tells of a run whether it goes on although a handler has failed in it.
using RunContinues = bool (*)(std::int64_t run_id) noexcept;
void set_run_continues(RunContinues run_continues);

// Calls the cleanups for a run that failed, unless it goes on: nobody else would end
// what it began.
void release_run(std::int64_t run_id) noexcept;

// Whether a handler of ours has run on this thread since this was made. A run that
// begins on the thread of its caller is over when JAX returns; one whose arguments are
// on their way begins later, and elsewhere.
class HandlerDetector {
 public:
  HandlerDetector() : before_(has_run_here) { has_run_here = false; }
  ~HandlerDetector() { has_run_here = before_; }
  HandlerDetector(const HandlerDetector&) = delete;
  HandlerDetector& operator=(const HandlerDetector&) = delete;

  bool has_run() const { return has_run_here; }

  static void record_handler() { has_run_here = true; }

 private:
  static thread_local constinit inline bool has_run_here = false;
  bool before_;
};

}  // namespace bellhop
