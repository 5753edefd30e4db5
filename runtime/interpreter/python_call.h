// interpreter/python_call.h: call Python from any thread, until the process exits.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "interpreter/gil.h"

namespace bellhop {

// Holds the GIL for a call of a Python function; converts to false if the process is
// exiting and no call may start.
//
// A program whose result is not awaited may still run while the process exits. Python
// then ends the threads that request the GIL, and JAX waits for its own threads
// forever. So at exit no calls start on XLA's threads, and the exiting thread waits for
// the active ones. Threads that Python started may run programs themselves. Before
// Python 3.14, ending such a thread unwinds its frames, and unwinding frames of JAX
// aborts the process or continues without the GIL. So the exiting thread waits a moment
// for these calls too, and delays new ones.
class PythonCall {
 public:
  PythonCall() : thread_(PyGILState_GetThisThreadState()) {
    if (thread_ == nullptr && !begin()) return;
    gil_.emplace(thread_);
    if (thread_ != nullptr && calls_here_++ == 0) begin_here();
  }
  ~PythonCall() {
    if (!gil_) return;
    if (thread_ != nullptr && --calls_here_ == 0) count_here(-1);
    gil_.reset();
    if (thread_ == nullptr) end();
  }
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

  explicit operator bool() const { return gil_.has_value(); }

 private:
  friend bool close_calls();
  friend void forget_calls();

  // Counts a call on an XLA thread, before it requests the GIL. Returns false if no
  // call may start.
  static bool begin();
  static void end();

  // Counts a call on a Python thread. Needs the GIL.
  void begin_here() {
    count_here(1);
    if (closed_.load(kWithGil)) [[unlikely]]
      wait_for_end();
  }
  void wait_for_end();
  // Adds to the number of Python threads in calls. Needs the GIL.
  static void count_here(int change) {
#ifdef Py_GIL_DISABLED
    threads_.fetch_add(change);
#else
    threads_.store(threads_.load(kWithGil) + change, kWithGil);
#endif
  }

#ifdef Py_GIL_DISABLED
  static constexpr auto kWithGil = std::memory_order_seq_cst;
#else
  // The GIL orders the accesses.
  static constexpr auto kWithGil = std::memory_order_relaxed;
#endif

  // A call increments its counter before it reads `closed_`, and the exiting thread
  // sets `closed_` before it reads the counters, so at least one of them sees the
  // other.
  static inline std::atomic<bool> closed_{false};
  // The number of Python threads that are in calls, and the nesting depth of calls on
  // this thread.
  static inline std::atomic<int64_t> threads_{0};
  static thread_local constinit inline int calls_here_ = 0;

  PyThreadState* const thread_;  // Python's state of this thread, or null
  std::optional<Gil> gil_;
};

inline constexpr const char* kProcessEnds =
    "bellhop: the process is exiting, so this program cannot call Python functions. "
    "Wait for its results before the exit, for instance with jax.block_until_ready.";

// Called at the exit of the process, with the GIL. Prevents new calls on XLA's threads
// and waits for active calls. Returns false with a Python error set if a signal
// interrupted it.
bool close_calls();

// Resets the counters in the child of a fork, which has only the calling thread.
void forget_calls();

}  // namespace bellhop
