// profile/profile.h: what crosses the border of programs, counted and timed.
//
// Nothing here needs the GIL, and whoever holds the mutex takes no other lock.
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

// One crossing. Python reads arrays of these.
struct HostCall {
  int64_t begin = 0;  // nanoseconds of profile_clock
  int64_t end = 0;
  int64_t busy = 0;    // outside the program: all of it, but for circuits
  int64_t waited = 0;  // for the GIL
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
  int32_t place = 0;
  int32_t thread = 0;
  int32_t failed = 0;
  int32_t calls = 1;  // a batch of circuits is one crossing of many
};

// Where crossings are made.
struct CallSite {
  std::string kind;
  std::string name;
  std::string site;        // file:line of the call
  std::string definition;  // file:line of what is called
  uint64_t number = 0;     // places with one are apart, whatever else they say
};

// What is recorded between `start` and `stop`: crossings that begin and end there. Of
// more than `limit` the later ones are counted, but not kept one by one.
class Profile {
 public:
  explicit Profile(size_t limit) : limit_(limit) {}
  ~Profile() { stop(); }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // All crossings of a place together.
  struct Row {
    CallSite place;
    int64_t calls = 0;
    HostCall sum = {};
  };

  void start();
  void stop();

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

inline bool is_profiled() { return open_profiles.load(std::memory_order_relaxed) != 0; }

int64_t profile_clock();

// A number for the thread that asks, from 1 on.
int32_t profile_thread();

void record(const CallSite& place, HostCall host_call);

// Times one call of a callback where a profile is open: from when it is made until it
// goes.
class CallTimer {
 public:
  // What of a call it is: the rows of a profile.
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

  void mark_gil_taken() {
    if (begin_ != 0) [[unlikely]]
      waited_ = profile_clock() - begin_;
  }
  void describe(Part part, const CallSite& place, std::span<const BufferView> arguments,
                std::span<const BufferView> results) {
    if (begin_ != 0) [[unlikely]]
      store_description(part, place, arguments, results);
  }
  // It waited for the GIL before the timer was made.
  void add_wait(int64_t nanoseconds) {
    if (begin_ == 0) [[likely]]
      return;
    begin_ -= nanoseconds;
    waited_ = nanoseconds;
  }
  void mark_failed() { failed_ = true; }

  // More bytes, or less, for the call that this thread makes, where one is timed: not
  // all that crosses is an operand or a result.
  static void add_bytes(int64_t out, int64_t in);

 private:
  void store_description(Part part, const CallSite& place,
                         std::span<const BufferView> arguments,
                         std::span<const BufferView> results);
  void begin();
  void finish();

  int64_t begin_ = 0;
  // Not set where no profile is open, to cost nothing there.
  int64_t waited_;
  int64_t bytes_out_;
  int64_t bytes_in_;
  CallTimer* outer_;
  const CallSite* place_;
  Part part_;
  bool failed_;
};

// Circuits: a row for each, with the time in the device and not that of the program
// between its operations.
enum class CircuitStep { kBegin, kOperation, kEnd, kWhole };
XLA_FFI_Error* profile_step(XLA_FFI_CallFrame* frame, XLA_FFI_Handler* handler,
                            CircuitStep step);

// A handler of a circuit, profiled.
template <XLA_FFI_Handler* kHandler, CircuitStep kStep = CircuitStep::kOperation>
XLA_FFI_Error* profile_handler(XLA_FFI_CallFrame* frame) {
  if (!is_profiled() || frame->extension_start != nullptr) return kHandler(frame);
  return profile_step(frame, kHandler, kStep);
}

// The place of the circuit that this thread runs in one step, which is no session's.
inline uint32_t whole_circuit_of_thread() {
  return uint32_t{1} << 31 | static_cast<uint32_t>(profile_thread());
}

// The circuit in this place was run by the engine.
void profile_engine(uint32_t place);

// The circuit in this place ended because its run failed.
void profile_failed_circuit(uint32_t place);

// In the child of a fork.
void forget_profiles();

}  // namespace bellhop
