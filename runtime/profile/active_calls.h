// profile/active_calls.h: the calls and circuits that each thread is executing now.
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
// The GIL is the lock, so this mutex does nothing.
struct ActivityMutex {
  void lock() {}
  void unlock() {}
};
#endif

class ActiveCircuit;
class ActiveCall;

// The active calls and the active circuit of one thread. Other threads read it under
// its mutexes.
struct ThreadActivity {
  ThreadActivity();
  ~ThreadActivity();
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

  // Returns the calling thread's object, which is created on first use and removed at
  // the thread's end.
  static ThreadActivity& here() {
    return known_here_ != nullptr ? *known_here_ : make_here();
  }

  // Python's identifier of the thread.
  const unsigned long thread;
  ActivityMutex mutex;
  const ActiveCall* innermost = nullptr;
  SpinMutex circuit_mutex;
  const ActiveCircuit* circuit = nullptr;

 private:
  static ThreadActivity& make_here();

  static thread_local constinit inline ThreadActivity* known_here_ = nullptr;
};

// Returns the monotonic time in nanoseconds, with a resolution of some milliseconds, in
// a quarter of the time that the exact clock takes.
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

// Marks a call as active on this thread during its lifetime: a call of a compiled
// function, or of Python in one. Calls nest. The constructor and the destructor need
// the GIL; they take a lock only in a free-threaded Python.
class ActiveCall {
 public:
  // `what` describes the call to Python, and must outlive this object.
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

// Marks an operation of a circuit as active on this thread during its lifetime; it is
// the thread's innermost call. Needs no GIL.
class ActiveCircuit {
 public:
  // The names of the circuit and of its device must outlive this object.
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

// The active calls of one thread.
struct ThreadCalls {
  struct Call {
    PyObject* what;  // a new reference
    double seconds;  // since the call began
  };
  unsigned long thread;     // Python's identifier
  std::vector<Call> calls;  // the outermost first
};

// Returns the active calls of all threads that have any. Needs the GIL.
std::vector<ThreadCalls> list_active_calls();

// Removes all threads but the calling one. Called in the child of a fork.
void forget_active_calls();

}  // namespace bellhop
