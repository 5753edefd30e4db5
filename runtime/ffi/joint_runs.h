// ffi/joint_runs.h: runs whose devices wait for each other in collectives.
//
// Devices of one process meet in a collective operation. If a device fails before it,
// the others wait for the device until XLA ends the process. So no handler fails in a
// run that Python has announced as a JointRun. A handler whose body fails returns
// zeros, and handlers that begin later in the run return zeros without running their
// bodies. All devices get to the end of the run. There Python raises what has failed.
//
// A loop may never end when its condition depends on zeros. So some time after the
// first failure, when the calls that each device has made are as many as on the others,
// give or take one, a number of a call is chosen at which every device fails. Devices
// that make the same calls have met in the same collectives before that call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace bellhop {

// What handlers of one XLA run share.
struct JointExecution;

// A run of a program with collectives, from before it begins until it has ended. Any
// thread may use it.
class JointRun {
 public:
  // The custom calls of the program belong to `table`. `devices` is their number.
  JointRun(const void* table, std::size_t devices);
  ~JointRun() { end(); }
  JointRun(const JointRun&) = delete;
  JointRun& operator=(const JointRun&) = delete;

  // Ends the run; returns the texts of the errors of its handlers, the first one first.
  // Runs of one program that overlap may have each other's.
  // The caller releases `left`, the executions that have failed (ffi/run_cleanup.h).
  struct Failures {
    std::vector<std::string> texts;
    std::vector<std::int64_t> left;
  };
  Failures end();

  // In the child of a fork, which has no runs.
  static void forget_all();

  // Whether any run has begun and not ended.
  static bool any() { return count_.load(std::memory_order_relaxed) != 0; }

  // Whether a run is under way that `run_id` is known to belong to.
  static bool has(std::int64_t run_id) noexcept;

 private:
  static inline std::atomic<std::size_t> count_{0};
};

// The call of a handler, which may be part of a joint run.
class JointCall {
 public:
  // `table` is the table that the custom call names, or null where it names none: such
  // a call is part of a run that calls with a table have made known.
  JointCall(const XLA_FFI_CallFrame& frame, const void* table);

  bool is_joint() const { return execution_ != nullptr; }
  // Whether a handler of the run has failed before.
  bool is_skipped() const;
  // Writes zeros to the results; an error where the run is to be stopped.
  XLA_FFI_Error* skip() const;
  // Keeps the error for the end of the run, and writes zeros to the results.
  XLA_FFI_Error* keep(XLA_FFI_Error* error) const;

 private:
  const XLA_FFI_CallFrame& frame_;
  std::shared_ptr<JointExecution> execution_;
  // How many calls with a table the device has made in this execution, with this call.
  std::uint64_t number_ = 0;
};

// Runs a handler's body so that no device of a joint run fails. `find_table` returns
// the table that the frame names.
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
