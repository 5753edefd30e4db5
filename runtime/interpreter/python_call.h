// interpreter/python_call.h: calling Python from XLA's threads, until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "interpreter/gil.h"

namespace bellhop {

// Holds the GIL for a call of Python's, or is false where none may begin any more.
//
// A program that nobody waits for may still run when the process ends. Python then
// kills threads that ask for the GIL, and JAX waits for its own forever. Threads of
// Python's, which run programs themselves, are for Python to end; until 3.13 that
// unwinds their frames, and in a call those may be of JAX's, which abort the process or
// go on without the GIL. So the end of the process waits for their calls a moment,
// while no others begin.
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

  // Of a thread of XLA's: counts the call, before it asks for the GIL; false where none
  // may begin.
  static bool begin();
  static void end();

  // The same of one of Python's, with the GIL.
  void begin_here() {
    count_here(1);
    if (closed_.load(kWithGil)) [[unlikely]]
      wait_for_end();
  }
  void wait_for_end();
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
  // The GIL is the lock.
  static constexpr auto kWithGil = std::memory_order_relaxed;
#endif

  // A call counts itself before it looks at the other, and the end of the process
  // closes before it looks at the count: one of them sees the other.
  static inline std::atomic<bool> closed_{false};
  // How many threads of Python's are in calls, and in how many this one is.
  static inline std::atomic<int64_t> threads_{0};
  static thread_local constinit inline int calls_here_ = 0;

  PyThreadState* const thread_;  // Python's state of this thread, if it has one
  std::optional<Gil> gil_;
};

inline constexpr const char* kProcessEnds =
    "bellhop: the process ends, so this program calls no more Python functions; wait "
    "for its results before, as with jax.block_until_ready";

// At the end of the process, with the GIL: lets no more calls begin on XLA's threads,
// and waits for those under way. False with a Python error set where a signal
// interrupted it.
bool close_calls();

// In the child of a fork, where the threads of the calls under way are no more.
void forget_calls();

}  // namespace bellhop
