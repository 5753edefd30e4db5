// profile/active_calls.h: what each thread is in the middle of, for others to ask.
#pragma once

#include <Python.h>
#include <time.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "threads/spin_mutex.h"

namespace bellhop {

#ifdef Py_GIL_DISABLED
using ActivityMutex = SpinMutex;
#else
// The GIL is the lock.
struct ActivityMutex {
  void lock() {}
  void unlock() {}
};
#endif

class ActiveCircuit;
class ActiveCall;

struct ThreadActivity {
  ThreadActivity();
  ~ThreadActivity();
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

  static ThreadActivity& here() {
    return known_here_ != nullptr ? *known_here_ : make_here();
  }

  const unsigned long thread;
  ActivityMutex mutex;
  const ActiveCall* innermost = nullptr;
  SpinMutex circuit_mutex;
  const ActiveCircuit* circuit = nullptr;

 private:
  static ThreadActivity& make_here();

  static thread_local constinit inline ThreadActivity* known_here_ = nullptr;
};

// Nanoseconds, exact to some milliseconds: a quarter of what the exact time costs.
inline int64_t coarse_clock() {
#ifdef CLOCK_MONOTONIC_COARSE
  constexpr clockid_t kClock = CLOCK_MONOTONIC_COARSE;
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec now;
  clock_gettime(kClock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// A step of this thread, for as long as it lasts: a call of a compiled function, or of
// Python in one. Steps nest. It begins and ends with the GIL, and costs no lock but
// where there is none.
class ActiveCall {
 public:
  // Of an object that outlives it, and says what it is.
  explicit ActiveCall(PyObject* what)
      : what_(what), began_(coarse_clock()), thread_(ThreadActivity::here()) {
    const std::lock_guard lock(thread_.mutex);
    outer_ = std::exchange(thread_.innermost, this);
  }
  ~ActiveCall() {
    const std::lock_guard lock(thread_.mutex);
    thread_.innermost = outer_;
  }
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

  PyObject* what() const { return what_; }
  int64_t began() const { return began_; }
  const ActiveCall* outer() const { return outer_; }

 private:
  PyObject* what_;
  int64_t began_;
  const ActiveCall* outer_;
  ThreadActivity& thread_;
};

// An operation of a circuit, in whichever thread XLA runs it: the innermost step of
// that. Without the GIL.
class ActiveCircuit {
 public:
  // Names that outlive it.
  ActiveCircuit(const std::string& circuit, const std::string& device);
  ~ActiveCircuit();
  ActiveCircuit(const ActiveCircuit&) = delete;
  ActiveCircuit& operator=(const ActiveCircuit&) = delete;

  const std::string& circuit() const { return circuit_; }
  const std::string& device() const { return device_; }
  int64_t began() const { return began_; }

 private:
  const std::string& circuit_;
  const std::string& device_;
  int64_t began_;
  const ActiveCircuit* outer_;
  ThreadActivity& thread_;
};

struct ThreadCalls {
  struct Call {
    PyObject* what;  // a new reference
    double seconds;  // since it began
  };
  unsigned long thread;     // Python's identifier
  std::vector<Call> calls;  // the outermost first
};

// Of all threads that are in one. With the GIL.
std::vector<ThreadCalls> list_active_calls();

// In the child of a fork, where only this thread is left.
void forget_active_calls();

}  // namespace bellhop
