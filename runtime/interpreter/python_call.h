// interpreter/python_call.h: calling Python from XLA's threads, until the process ends.
#pragma once

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
  PythonCall() {
    if (count_.may_call()) gil_.emplace();
  }
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

  explicit operator bool() const { return count_.may_call(); }

 private:
  // Among the calls under way, from before the GIL is held until after.
  class Count {
   public:
    Count();
    ~Count();
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;

    bool may_call() const { return may_call_; }

   private:
    bool is_thread_of_python_;
    bool may_call_;
  };

  Count count_;
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
