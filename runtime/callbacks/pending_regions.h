// callbacks/pending_regions.h: results of started regions, and values that stay on
// devices.
//
// Each value belongs to an execution. It is dropped when the execution fails, or when
// the call of the program ends.
#pragma once

#include <Python.h>

#include <cstdint>
#include <utility>

#include "callbacks/program_call.h"
#include "ffi/call_frame.h"

namespace bellhop {

// Stores a Python object for the execution that this thread makes a call for, and
// returns the future (or handle) that names it. Steals the reference. Needs the GIL.
uint64_t keep_pending(PyObject* finish);

// Removes and returns a stored object, or null if the future is unknown. New reference.
PyObject* take_pending(uint64_t future);

// Returns a stored object (new reference) without removing it, or null.
PyObject* find_pending(uint64_t future);

// An execution: XLA's run id, and the call of the program.
struct RunKey {
  int64_t id = 0;
  const ProgramCall* call = &kNoCall;
};

// Marks the execution for which this thread makes a call, during the object's lifetime.
class CurrentRun {
 public:
  CurrentRun(const XLA_FFI_CallFrame& frame, const ProgramCall& call)
      : frame_(frame), call_(call), before_(std::exchange(innermost_, this)) {}
  ~CurrentRun() { innermost_ = before_; }
  CurrentRun(const CurrentRun&) = delete;
  CurrentRun& operator=(const CurrentRun&) = delete;

  // Returns the innermost marked execution. XLA's run id is looked up only here,
  // because most calls do not need it.
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

// Drops the objects of a failed execution. May be called from any thread, with or
// without the GIL.
void drop_pending(int64_t run_id) noexcept;

// Drops the objects of all executions of a call that has ended.
void drop_call_pending(const ProgramCall& call) noexcept;

// Returns how many objects are stored.
std::size_t pending_regions() noexcept;

}  // namespace bellhop
