// interpreter/gil.h: holding and releasing Python's interpreter lock for a scope.
//
// Whoever takes the lock computes in the default floating-point environment until the
// scope ends, within a NoGil too.
//
// A free-threaded Python has none. There a thread that "holds the GIL" may call Python,
// and others may too: what threads share is guarded otherwise, by locks whose holders
// call no Python.
#pragma once

#include <Python.h>

#include "interpreter/daemon_threads.h"
#include "interpreter/floating_point_environment.h"

namespace bellhop {

class Gil {
 public:
  Gil() : Gil(PyGILState_GetThisThreadState()) {}
  // For a caller who knows Python's state of this thread, or null where it has none. In
  // the place of PyGILState_Ensure, which asks for it again, as does the release.
  explicit Gil(PyThreadState* thread) {
    if (thread == nullptr) {
      own_ = call_or_sleep(PyGILState_Ensure);
      end_ = End::kReleaseOwn;
    } else if (thread != current()) {
      call_or_sleep([thread] { PyEval_RestoreThread(thread); });
      end_ = End::kSave;
    }
  }
  ~Gil() {
    if (end_ == End::kSave) {
      PyEval_SaveThread();
    } else if (end_ == End::kReleaseOwn) {
      PyGILState_Release(own_);
    }
  }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  enum class End : char { kNothing, kSave, kReleaseOwn };

  static PyThreadState* current() {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
  }

  // Before the lock: a thread that is started with it inherits the mode.
  const DefaultFloatingPointEnvironment environment_;
  End end_ = End::kNothing;
  PyGILState_STATE own_;
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
