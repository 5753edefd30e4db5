// interpreter/failures.h: what went wrong in a run, on its way to the caller.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

namespace bellhop {

// XLA carries only text between a failed call and its caller, and more of it than the
// caller is to see, so what failed waits here under a number that the text names. Ids
// of runs will not do: two executables of the same text may share them.

// A call of a compiled function, for as long as it lasts: what fails meanwhile on its
// thread is its own, waits for it, and goes with it. Needs the GIL.
class CallFailures {
 public:
  CallFailures();
  ~CallFailures();
  CallFailures(const CallFailures&) = delete;
  CallFailures& operator=(const CallFailures&) = delete;

  // Says that there is one, of this thread's call if it is in one.
  static void mark_failure();

 private:
  CallFailures* const outer_;
  bool has_any_ = false;
};

// Steals `exception`, of a callback; returns its number. Needs the GIL.
int64_t keep_failure(PyObject* exception);

// Keeps the message of a circuit's error, which Python makes an exception of.
int64_t keep_failure(std::string message);

// Takes the current Python error, as an exception object (new reference).
PyObject* take_exception();

// The text of a failed run that an exception is behind, which it steals: what was
// raised, where, and a mark with its number.
std::string make_failure_text(PyObject* exception, const std::string& where,
                              const char* mark);

// The exception or str of that number (new reference), or null. Needs the GIL.
PyObject* take_failure(int64_t number);

// The same of an exception, which goes on waiting: each device of a run raises it.
PyObject* look_at_failure(int64_t number);

}  // namespace bellhop
