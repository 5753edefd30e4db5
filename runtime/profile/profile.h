// profile/profile.h: count and time the host calls of programs.
//
// A host call is a transition from the compiled program to Python or to a device, and
// back. Nothing here needs the GIL, and a holder of the mutex takes no other lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "arrays/buffer_view.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {

// One host call, or all operations of one circuit. Python reads arrays of this
// structure.
struct HostCall {
  int64_t begin = 0;  // nanoseconds of profile_clock()
  int64_t end = 0;
  // Nanoseconds spent outside of the program. For a circuit, the time in its handlers.
  int64_t busy = 0;
  int64_t waited = 0;  // nanoseconds spent waiting for the GIL
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
  // The index of the call site in Profile::rows().
  int32_t row = 0;
  int32_t thread = 0;
  int32_t failed = 0;
  int32_t calls = 1;  // the number of circuits if this is a batch
};

// The location and the kind of host calls. Host calls with equal sites share a row of a
// profile.
struct CallSite {
  std::string kind;
  std::string name;
  std::string site;        // file:line of the call
  std::string definition;  // file:line of the function that is called
  uint64_t number = 0;     // If not zero, identifies the site instead of its texts.
};

// The host calls that begin and end between `start` and `stop`. After `limit` host
// calls, further ones are summed in the rows, but not stored individually.
class Profile {
 public:
  explicit Profile(size_t limit) : limit_(limit) {}
  ~Profile() { stop(); }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // The sum of all host calls of one site.
  struct Row {
    CallSite call_site;
    int64_t calls = 0;
    HostCall sum = {};
  };

  // Start and stop recording host calls of all threads. `stop` does nothing if the
  // profile is not started.
  void start();
  void stop();

  // Return copies of the rows, and of the stored host calls. May be called while the
  // profile is started.
  std::vector<Row> rows() const;
  std::vector<HostCall> host_calls() const;

 private:
  friend class Recorder;

  size_t limit_;
  int64_t began_ = 0;
  std::vector<Row> rows_;
  std::unordered_map<std::string, int32_t> by_key_;
  std::vector<HostCall> host_calls_;
};

inline std::atomic<int> open_profiles = 0;

// Returns whether any profile is started.
inline bool is_profiled() { return open_profiles.load(std::memory_order_relaxed) != 0; }

// Returns the monotonic time in nanoseconds.
int64_t profile_clock();

// Returns a positive number that identifies the calling thread.
int32_t profile_thread();

// Adds a host call of this thread to all started profiles.
void record(const CallSite& site, HostCall host_call);

// Times one call of a callback from construction to destruction, and records it, if a
// profile is started.
class CallTimer {
 public:
  // Which part of a callback's execution is timed. Each part has its own row.
  enum class Part : char { kCall, kStart, kWait, kTap, kTapped };

  CallTimer() {
    if (is_profiled()) [[unlikely]]
      begin();
  }
  ~CallTimer() {
    if (begin_ != 0) [[unlikely]]
      finish();
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  // Records that the thread has acquired the GIL; all time until now was waiting.
  void mark_gil_taken() {
    if (begin_ != 0) [[unlikely]]
      waited_ = profile_clock() - begin_;
  }
  // Sets which callback is timed, and counts the bytes of its arguments and results.
  void describe(Part part, const CallSite& site, std::span<const BufferView> arguments,
                std::span<const BufferView> results) {
    if (begin_ != 0) [[unlikely]]
      store_description(part, site, arguments, results);
  }
  // Adds time for which the call waited for the GIL before the timer was made.
  void add_wait(int64_t nanoseconds) {
    if (begin_ == 0) [[likely]]
      return;
    begin_ -= nanoseconds;
    waited_ = nanoseconds;
  }
  // Records that the call raised an exception.
  void mark_failed() { failed_ = true; }

  // Adds bytes (or subtracts, if negative) to the innermost timed call of this thread:
  // some data are transferred that are neither operands nor results.
  static void add_bytes(int64_t out, int64_t in);

 private:
  void store_description(Part part, const CallSite& site,
                         std::span<const BufferView> arguments,
                         std::span<const BufferView> results);
  void begin();
  void finish();

  int64_t begin_ = 0;
  // Uninitialised if no profile is started, to avoid the cost.
  int64_t waited_;
  int64_t bytes_out_;
  int64_t bytes_in_;
  CallTimer* outer_;
  const CallSite* site_;
  Part part_;
  bool failed_;
};

// Which handler of a circuit is called. kWhole: one handler runs the whole circuit.
enum class CircuitStep { kBegin, kOperation, kEnd, kWhole };

// Calls a handler of a circuit and profiles the call. A circuit has one row, whose time
// is the time in its handlers, without the program's time between them. Returns the
// error of the handler, or null.
XLA_FFI_Error* profile_step(XLA_FFI_CallFrame* frame, XLA_FFI_Handler* handler,
                            CircuitStep step);

// The XLA handler that calls `kHandler` and profiles the call if a profile is started.
template <XLA_FFI_Handler* kHandler, CircuitStep kStep = CircuitStep::kOperation>
XLA_FFI_Error* profile_handler(XLA_FFI_CallFrame* frame) {
  if (!is_profiled() || frame->extension_start != nullptr) return kHandler(frame);
  return profile_step(frame, kHandler, kStep);
}

// Returns an index for the circuit that this thread runs in a single handler. It
// differs from all indices of sessions.
inline uint32_t whole_circuit_of_thread() {
  return uint32_t{1} << 31 | static_cast<uint32_t>(profile_thread());
}

// Records that the engine has executed the circuit with this session index.
void profile_engine(uint32_t session_index);

// Records that the circuit with this session index has ended because its execution
// failed.
void profile_failed_circuit(uint32_t session_index);

// Stops all profiles in the child of a fork.
void forget_profiles();

}  // namespace bellhop
