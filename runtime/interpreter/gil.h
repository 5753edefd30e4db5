// interpreter/gil.h: hold or release Python's interpreter lock (GIL) for a scope.
//
// A scope that takes the lock computes in the default floating-point environment until
// it ends, also inside a NoGil scope.
//
// A free-threaded Python has no GIL. There, a thread that "holds the GIL" may call
// Python, and so may other threads at the same time. Data that threads share is guarded
// by other locks, whose holders do not call Python.
#pragma once

#include <Python.h>

#include "interpreter/daemon_threads.h"
#include "interpreter/floating_point_environment.h"

namespace bellhop {

// Holds the GIL during its lifetime. Scopes may be nested.
class Gil {
 public:
  Gil() : Gil(PyGILState_GetThisThreadState()) {}
  // `thread` is Python's state of this thread, or null if Python does not know the
  // thread. A caller that has looked it up already saves the second look-up that
  // PyGILState_Ensure and PyGILState_Release would make.
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

  // Returns the thread state that holds the GIL on this thread, or null.
  static PyThreadState* current() {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
  }

  // Constructed before the lock is taken, because a thread that is started while the
  // lock is held inherits the mode.
  const DefaultFloatingPointEnvironment environment_;
  End end_ = End::kNothing;
  PyGILState_STATE own_;
};

// Releases the GIL, which the caller holds, during its lifetime.
class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  // A destructor is noexcept, so a thread that Python ends here sleeps, as in
  // call_or_sleep.
  ~NoGil() { PyEval_RestoreThread(state_); }
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace bellhop
