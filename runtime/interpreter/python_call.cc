// interpreter/python_call.cc: counting calls of Python's, to let them end.
#include "interpreter/python_call.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace bellhop {
namespace {

constexpr std::chrono::milliseconds kLookForCalls{1};
// Calls on threads of Python's may never end: the process does so after that long.
constexpr std::chrono::milliseconds kForThreadsOfPython{250};
// How long those that come then wait for that. What the process still does may need
// them.
constexpr std::chrono::seconds kAtMost{5};

// Calls on threads of XLA's.
std::atomic<int64_t> calls_on_xla_threads{0};
// The thread that closed, and does what is left.
thread_local constinit bool is_closing_thread = false;

}  // namespace

bool PythonCall::begin() {
  calls_on_xla_threads.fetch_add(1);
  if (!closed_.load()) return true;
  end();
  return false;
}

void PythonCall::end() { calls_on_xla_threads.fetch_sub(1); }

void PythonCall::wait_for_end() {
  if (is_closing_thread) return;
  count_here(-1);
  gil_.reset();
  std::this_thread::sleep_for(kAtMost);
  gil_.emplace(thread_);
  count_here(1);
}

bool close_calls() {
  is_closing_thread = true;
  PythonCall::closed_.store(true);
  const auto since = std::chrono::steady_clock::now();
  while (calls_on_xla_threads.load() > 0 ||
         (PythonCall::threads_.load() > 0 &&
          std::chrono::steady_clock::now() - since < kForThreadsOfPython)) {
    {
      NoGil no_gil;
      std::this_thread::sleep_for(kLookForCalls);
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
  return true;
}

void forget_calls() {
  calls_on_xla_threads.store(0);
  PythonCall::threads_.store(PythonCall::calls_here_ > 0);
}

}  // namespace bellhop
