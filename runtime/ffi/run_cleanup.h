// ffi/run_cleanup.h: release the resources that a failed execution has left open.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace bellhop {

// Releases the resources that one part of the runtime holds for an execution. May be
// called from any thread.
using RunCleanup = void (*)(std::int64_t run_id) noexcept;

// Sets the cleanup functions of all parts of the runtime, in calling order. Called
// once, while the module loads.
void set_run_cleanups(std::initializer_list<RunCleanup> cleanups);

// Returns whether an execution continues although one of its handlers has failed.
// Called once, while the module loads.
using RunContinues = bool (*)(std::int64_t run_id) noexcept;
void set_run_continues(RunContinues run_continues);

// Calls all cleanup functions for a failed execution, unless the execution continues.
// No later handler of the program would release these resources.
void release_run(std::int64_t run_id) noexcept;

// Detects whether a handler has run on this thread since the object was constructed. If
// XLA runs a program on its caller's thread, the program has ended when JAX returns. A
// program whose arguments are not ready starts later, on an XLA thread.
class HandlerDetector {
 public:
  HandlerDetector() : before_(has_run_here) { has_run_here = false; }
  ~HandlerDetector() { has_run_here = before_; }
  HandlerDetector(const HandlerDetector&) = delete;
  HandlerDetector& operator=(const HandlerDetector&) = delete;

  bool has_run() const { return has_run_here; }

  // Records that a handler runs on this thread.
  static void record_handler() { has_run_here = true; }

 private:
  static thread_local constinit inline bool has_run_here = false;
  bool before_;
};

}  // namespace bellhop
