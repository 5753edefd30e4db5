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
using StepsMutex = SpinMutex;
#else
// The GIL is the lock.
struct StepsMutex {
  void lock() {}
  void unlock() {}
};
#endif

class CircuitUnderWay;
class UnderWay;

struct ThreadUnderWay {
  ThreadUnderWay();
  ~ThreadUnderWay();
  ThreadUnderWay(const ThreadUnderWay&) = delete;
  ThreadUnderWay& operator=(const ThreadUnderWay&) = delete;

  static ThreadUnderWay& here() {
    return known_here_ != nullptr ? *known_here_ : first_here();
  }

  const unsigned long thread;
  StepsMutex mutex;
  const UnderWay* innermost = nullptr;
  SpinMutex circuit_mutex;
  const CircuitUnderWay* circuit = nullptr;

 private:
  static ThreadUnderWay& first_here();

  static thread_local constinit inline ThreadUnderWay* known_here_ = nullptr;
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
class UnderWay {
 public:
  // Of an object that outlives it, and says what it is.
  explicit UnderWay(PyObject* what)
      : what_(what), began_(coarse_clock()), thread_(ThreadUnderWay::here()) {
    const std::lock_guard lock(thread_.mutex);
    around_ = std::exchange(thread_.innermost, this);
  }
  ~UnderWay() {
    const std::lock_guard lock(thread_.mutex);
    thread_.innermost = around_;
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  PyObject* what() const { return what_; }
  int64_t began() const { return began_; }
  const UnderWay* around() const { return around_; }

 private:
  PyObject* what_;
  int64_t began_;
  const UnderWay* around_;
  ThreadUnderWay& thread_;
};

// An operation of a circuit, in whichever thread XLA runs it: the innermost step of
// that. Without the GIL.
class CircuitUnderWay {
 public:
  // Names that outlive it.
  CircuitUnderWay(const std::string& circuit, const std::string& device);
  ~CircuitUnderWay();
  CircuitUnderWay(const CircuitUnderWay&) = delete;
  CircuitUnderWay& operator=(const CircuitUnderWay&) = delete;

  const std::string& circuit() const { return circuit_; }
  const std::string& device() const { return device_; }
  int64_t began() const { return began_; }

 private:
  const std::string& circuit_;
  const std::string& device_;
  int64_t began_;
  const CircuitUnderWay* around_;
  ThreadUnderWay& thread_;
};

struct StepsOfThread {
  struct Step {
    PyObject* what;  // a new reference
    double seconds;  // since it began
  };
  unsigned long thread;     // Python's identifier
  std::vector<Step> steps;  // the outermost first
};

// Of all threads that are in one. With the GIL.
std::vector<StepsOfThread> steps_under_way();

// In the child of a fork, where only this thread is left.
void forget_steps();

}  // namespace bellhop
