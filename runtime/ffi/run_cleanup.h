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
using GoesOn = bool (*)(std::int64_t run_id) noexcept;
void set_goes_on(GoesOn goes_on);

// Calls the cleanups for a run that failed, unless it goes on: nobody else would end
// what it began.
void release_run(std::int64_t run_id) noexcept;

// Whether a handler of ours has run on this thread since this was made. A run that
// begins on the thread of its caller is over when JAX returns; one whose arguments are
// on their way begins later, and elsewhere.
class RunsHere {
 public:
  RunsHere() : before_(any_here) { any_here = false; }
  ~RunsHere() { any_here = before_; }
  RunsHere(const RunsHere&) = delete;
  RunsHere& operator=(const RunsHere&) = delete;

  bool any() const { return any_here; }

  static void one() { any_here = true; }

 private:
  static thread_local constinit inline bool any_here = false;
  bool before_;
};

}  // namespace bellhop
