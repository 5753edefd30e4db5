// interpreter/failures.h: store the exceptions of failed executions for the Python
// caller.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

namespace bellhop {

// XLA passes only text from a failed handler to the caller. So the exception object or
// message is stored here under a random id, and the text that XLA passes contains the
// id. XLA's run id would not identify a failure: two executables of the same text may
// share it.

// The failures of one call of a compiled function. Failures that this thread stores
// during the object's lifetime are removed by its destructor if they were not taken.
// Needs the GIL.
class CallFailures {
 public:
  CallFailures();
  ~CallFailures();
  CallFailures(const CallFailures&) = delete;
  CallFailures& operator=(const CallFailures&) = delete;

  // Records that this thread's current call, if any, has stored a failure.
  static void mark_failure();

 private:
  CallFailures* const outer_;
  bool has_any_ = false;
};

// Stores an exception and returns its id. Steals the reference. Needs the GIL.
int64_t keep_failure(PyObject* exception);

// Stores the message of a circuit's error, from which Python makes an exception;
// returns its id.
int64_t keep_failure(std::string message);

// Clears the current Python error and returns it as an exception object (new
// reference).
PyObject* take_exception();

// Stores an exception, and returns the text that XLA reports for it: exception type,
// message, `where` it was raised, and `mark` with the id. Steals the reference.
std::string make_failure_text(PyObject* exception, const std::string& where,
                              const char* mark);

// Removes a stored failure and returns it (new reference): an exception, a str, or null
// if the id is unknown. Needs the GIL.
PyObject* take_failure(int64_t number);

// Returns a stored exception (new reference) without removing it, since each device of
// a run raises it; null if the id is unknown. Needs the GIL.
PyObject* look_at_failure(int64_t number);

}  // namespace bellhop
