// profile/under_way.h: what each thread is in the middle of, for others to ask.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bellhop {

struct ThreadUnderWay;

// A step of this thread, for as long as it lasts: a call of a compiled function, or of
// Python in one. Steps nest. It begins and ends with the GIL, and costs no lock but
// where there is none.
class UnderWay {
 public:
  // Of an object that outlives it, and says what it is.
  explicit UnderWay(PyObject* what);
  ~UnderWay();
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
