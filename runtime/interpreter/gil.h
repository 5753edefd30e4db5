// interpreter/gil.h: holding and releasing Python's interpreter lock for a scope.
//
// A free-threaded Python has none. There a thread that "holds the GIL" may call Python,
// and others may too: what threads share is guarded otherwise, by locks whose holders
// call no Python.
#pragma once

#include <Python.h>

#include "interpreter/ended_threads.h"

namespace bellhop {

class Gil {
 public:
  Gil() : state_(sleeps_if_ended(PyGILState_Ensure)) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  // A destructor lets nothing through, as sleeps_if_ended does.
  ~NoGil() { PyEval_RestoreThread(state_); }
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace bellhop
