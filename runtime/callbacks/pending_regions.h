// callbacks/pending_regions.h: regions that were started and whose results nobody took
// yet, and the arrays that a run keeps on devices. They go with the run that fails, and
// with the call of the program at the latest.
#pragma once

#include <Python.h>

#include <cstdint>
#include <utility>

#include "callbacks/program_call.h"
#include "ffi/call_frame.h"

namespace bellhop {

// Keeps what a region's `start` returned until the program asks for the results, for
// the run that this thread makes a call for; steals it. Returns the future that names
// it.
uint64_t keep_pending(PyObject* finish);

// New reference, or null where nothing waits under that future.
PyObject* take_pending(uint64_t future);

// The same, and it goes on waiting.
PyObject* find_pending(uint64_t future);

// A run: its number, and the call that it is of.
struct RunKey {
  int64_t id = 0;
  const ProgramCall* call = &kNoCall;
};

// The run that this thread makes a call for, while this lives.
class CurrentRun {
 public:
  CurrentRun(const XLA_FFI_CallFrame& frame, const ProgramCall& call)
      : frame_(frame), call_(call), before_(std::exchange(innermost_, this)) {}
  ~CurrentRun() { innermost_ = before_; }
  CurrentRun(const CurrentRun&) = delete;
  CurrentRun& operator=(const CurrentRun&) = delete;

  // XLA is asked for its number only where somebody needs it.
  static RunKey get() {
    if (innermost_ == nullptr) return {};
    return {run_id(innermost_->frame_), &innermost_->call_};
  }

 private:
  static thread_local constinit inline CurrentRun* innermost_ = nullptr;

  const XLA_FFI_CallFrame& frame_;
  const ProgramCall& call_;
  CurrentRun* const before_;
};

// Drops what a failed execution left. Any thread may call it, with the GIL or without.
void drop_pending(int64_t run_id) noexcept;

// Drops what the runs of a call that is over have left.
void drop_call_pending(const ProgramCall& call) noexcept;

// How many regions and arrays wait.
std::size_t pending_regions() noexcept;

}  // namespace bellhop
