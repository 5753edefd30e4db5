// ffi/joint_runs.cc: runs whose devices wait for each other in collective operations.
#include "ffi/joint_runs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "arrays/numpy_arrays.h"
#include "ffi/call_frame.h"

namespace bellhop {

namespace {

using Clock = std::chrono::steady_clock;

// How long a run continues after a failure before it is stopped.
constexpr std::chrono::seconds kPatience{10};

struct Run {
  const JointRun* run;
  const void* table;
  std::size_t devices;
  // Whether the XLA execution of this run is known.
  bool is_known = false;
  std::vector<std::string> failures;
};

}  // namespace

struct JointExecution {
  std::int64_t id;
  // The runs that this execution may be: one, unless runs of one program overlap.
  std::vector<const JointRun*> runs;
  bool has_failed = false;
  Clock::time_point failed_at;
  // Calls with a table of each device.
  std::map<std::int32_t, std::uint64_t> calls;
  std::uint64_t stop_at = 0;
};

namespace {

// A holder of the mutex takes no other lock.
struct Registry {
  std::mutex mutex;
  std::vector<Run> runs;
  std::vector<std::shared_ptr<JointExecution>> executions;

  Run* find(const JointRun* run) {
    const auto found = std::ranges::find(runs, run, &Run::run);
    return found == runs.end() ? nullptr : &*found;
  }

  std::shared_ptr<JointExecution> find_execution(std::int64_t id) {
    const auto found = std::ranges::find_if(
        executions, [&](const auto& each) { return each->id == id; });
    return found == executions.end() ? nullptr : *found;
  }

  // Registers an execution at its first call with a table. The runs of that table whose
  // execution is unknown are candidates.
  std::shared_ptr<JointExecution> begin_execution(std::int64_t id, const void* table) {
    std::vector<Run*> candidates;
    for (Run& run : runs) {
      if (run.table == table && !run.is_known) candidates.push_back(&run);
    }
    if (candidates.empty()) return nullptr;
    auto execution = std::make_shared<JointExecution>();
    execution->id = id;
    for (const Run* run : candidates) execution->runs.push_back(run->run);
    if (candidates.size() == 1) candidates.front()->is_known = true;
    executions.push_back(execution);
    return execution;
  }
};

// Never destroyed, because programs may run while the process exits. Replaced in the
// child of a fork.
Registry* registry = new Registry;

// Writes zeros to all results of a call.
void write_zeros(const XLA_FFI_CallFrame& frame) {
  Buffers results(frame.rets.rets, 0, frame.rets.size);
  for (const BufferView& result : results.span()) {
    if (const std::size_t bytes = memory_bytes(result); bytes != 0) {
      std::memset(result.data, 0, bytes);
    }
  }
}

// The arguments of XLA_FFI_Error_GetDetails (jaxlib 0.12). They begin with the
// arguments of XLA_FFI_Error_GetMessage (before), whose slot of the table of functions
// it has.
struct ErrorDetails {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_Error* error;
  const char* message;  // out
  int64_t code;         // out, of 0.12
};

template <typename Api>
void get_details(const Api* api, ErrorDetails* details) {
  using Get = void (*)(ErrorDetails*);
  if constexpr (requires { api->XLA_FFI_Error_GetMessage; }) {
    reinterpret_cast<Get>(api->XLA_FFI_Error_GetMessage)(details);
  } else {
    reinterpret_cast<Get>(api->XLA_FFI_Error_GetDetails)(details);
  }
}

// Returns the message of an XLA error, and destroys the error.
std::string text_of(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  ErrorDetails details{sizeof(ErrorDetails), nullptr, error, nullptr, 0};
  get_details(api, &details);
  std::string text = details.message == nullptr ? "" : details.message;
  XLA_FFI_Error_Destroy_Args destroy{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr,
                                     error};
  api->XLA_FFI_Error_Destroy(&destroy);
  return text;
}

// Returns whether a device must stop at its call with this number, after a failure.
// Chooses the number once all devices have made nearly the same number of calls.
bool stops(JointExecution& execution, std::size_t devices, std::uint64_t call) {
  if (execution.stop_at == 0 && Clock::now() - execution.failed_at > kPatience &&
      execution.calls.size() == devices) {
    std::uint64_t fewest = call;
    std::uint64_t most = call;
    for (const auto& [_, count] : execution.calls) {
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    if (most - fewest <= 1) execution.stop_at = most + 2;
  }
  return execution.stop_at != 0 && call >= execution.stop_at;
}

}  // namespace

JointRun::JointRun(const void* table, std::size_t devices) {
  const std::lock_guard lock(registry->mutex);
  registry->runs.push_back({this, table, devices, false, {}});
  count_.fetch_add(1);
}

JointRun::Failures JointRun::end() {
  Failures failures;
  const std::lock_guard lock(registry->mutex);
  Run* const run = registry->find(this);
  if (run == nullptr) return failures;
  failures.texts = std::move(run->failures);
  std::erase_if(registry->runs, [&](const Run& each) { return each.run == this; });
  std::erase_if(registry->executions, [&](const auto& execution) {
    std::erase(execution->runs, this);
    if (!execution->runs.empty()) return false;
    if (execution->has_failed) failures.left.push_back(execution->id);
    return true;
  });
  count_.fetch_sub(1);
  return failures;
}

void JointRun::forget_all() {
  registry = new Registry;
  count_.store(0);
}

bool JointRun::has(std::int64_t run_id) noexcept {
  if (!any()) return false;
  const std::lock_guard lock(registry->mutex);
  return registry->find_execution(run_id) != nullptr;
}

JointCall::JointCall(const XLA_FFI_CallFrame& frame, const void* table)
    : frame_(frame) {
  const std::int64_t id = run_id(frame);
  const std::int32_t device = device_ordinal(frame);
  const std::lock_guard lock(registry->mutex);
  execution_ = registry->find_execution(id);
  if (execution_ == nullptr && table != nullptr) {
    execution_ = registry->begin_execution(id, table);
  }
  if (execution_ != nullptr && table != nullptr) number_ = ++execution_->calls[device];
}

bool JointCall::is_skipped() const {
  const std::lock_guard lock(registry->mutex);
  return execution_->has_failed;
}

XLA_FFI_Error* JointCall::skip() const {
  if (number_ != 0) {
    const std::lock_guard lock(registry->mutex);
    const Run* run =
        execution_->runs.empty() ? nullptr : registry->find(execution_->runs.front());
    if (run != nullptr && stops(*execution_, run->devices, number_)) {
      return error(frame_.api,
                   "bellhop: the execution was stopped on this device, because another "
                   "call of it failed.");
    }
  }
  write_zeros(frame_);
  return nullptr;
}

XLA_FFI_Error* JointCall::keep(XLA_FFI_Error* error) const {
  const std::string text = text_of(frame_.api, error);
  {
    const std::lock_guard lock(registry->mutex);
    if (!std::exchange(execution_->has_failed, true)) {
      execution_->failed_at = Clock::now();
    }
    for (const JointRun* each : execution_->runs) {
      if (Run* run = registry->find(each)) run->failures.push_back(text);
    }
  }
  write_zeros(frame_);
  return nullptr;
}

}  // namespace bellhop
