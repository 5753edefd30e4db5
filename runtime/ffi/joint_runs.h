// ffi/joint_runs.h: runs whose devices wait for each other in collective operations.
//
// The devices of one process meet in a collective operation. If one device fails before
// it, the other devices wait until XLA ends the process. So no handler fails in a run
// that Python has announced as a JointRun. A handler whose body fails returns zeros,
// and handlers that begin later in the run return zeros without running their bodies.
// All devices reach the end of the run, where Python raises the exception.
//
// A loop whose condition depends on the zeros may never end. So some time after the
// first failure, when the numbers of calls that the devices have made differ by at most
// one, a later call number is chosen at which every device fails. Devices that make the
// same calls have met in the same collective operations before that call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace bellhop {

// The state that the handlers of one XLA execution share.
struct JointExecution;

// A run of a program with collective operations, from before it begins until after it
// has ended. May be used from any thread.
class JointRun {
 public:
  // The custom calls of the program belong to `table`. `devices` is their number.
  JointRun(const void* table, std::size_t devices);
  ~JointRun() { end(); }
  JointRun(const JointRun&) = delete;
  JointRun& operator=(const JointRun&) = delete;

  // Ends the run; returns the error messages of its handlers, the first one first, and
  // the run ids of failed executions, whose resources the caller releases
  // (ffi/run_cleanup.h). Overlapping runs of one program may receive each other's
  // errors.
  struct Failures {
    std::vector<std::string> texts;
    std::vector<std::int64_t> left;
  };
  Failures end();

  // Discards all runs. Called in the child of a fork.
  static void forget_all();

  // Returns whether any run has begun and not ended.
  static bool any() { return count_.load(std::memory_order_relaxed) != 0; }

  // Returns whether an execution is known to belong to an active joint run.
  static bool has(std::int64_t run_id) noexcept;

 private:
  static inline std::atomic<std::size_t> count_{0};
};

// A call of a handler, which may be part of a joint run.
class JointCall {
 public:
  // `table` is the callback table that the custom call names, or null if it names none.
  // A call without a table belongs to a run only if an earlier call with a table has
  // identified the execution.
  JointCall(const XLA_FFI_CallFrame& frame, const void* table);

  bool is_joint() const { return execution_ != nullptr; }
  // Returns whether a handler of the run has failed before.
  bool is_skipped() const;
  // Writes zeros to the results instead of running the body. Returns an error if the
  // run is to be stopped at this call, else null.
  XLA_FFI_Error* skip() const;
  // Stores the error for the end of the run, and writes zeros to the results. Returns
  // null.
  XLA_FFI_Error* keep(XLA_FFI_Error* error) const;

 private:
  const XLA_FFI_CallFrame& frame_;
  std::shared_ptr<JointExecution> execution_;
  // The number of calls with a table that the device has made in this execution,
  // including this one; zero for a call without a table.
  std::uint64_t number_ = 0;
};

// Runs a handler's body; in a joint run, an error of the body does not fail the call.
// `find_table` returns the table that the frame names.
template <typename FindTable, typename Body>
XLA_FFI_Error* run_jointly(XLA_FFI_CallFrame* frame, FindTable&& find_table,
                           Body&& body) {
  if (!JointRun::any() || frame->extension_start != nullptr ||
      frame->stage != XLA_FFI_ExecutionStage_EXECUTE) [[likely]] {
    return body();
  }
  const JointCall call(*frame, find_table(*frame));
  if (!call.is_joint()) return body();
  if (call.is_skipped()) return call.skip();
  XLA_FFI_Error* const error = body();
  return error == nullptr ? nullptr : call.keep(error);
}

}  // namespace bellhop
