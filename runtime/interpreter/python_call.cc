// interpreter/python_call.cc: count active calls of Python functions, to wait for them
// at exit.
#include "interpreter/python_call.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace bellhop {
namespace {

constexpr std::chrono::milliseconds kLookForCalls{1};
// How long the exit waits for calls on Python's threads, which may never return.
constexpr std::chrono::milliseconds kForThreadsOfPython{250};
// How long calls that start on Python's threads after that are delayed. Not forever,
// because the rest of the exit may depend on them.
constexpr std::chrono::seconds kAtMost{5};

// The number of active calls on XLA's threads.
std::atomic<int64_t> calls_on_xla_threads{0};
// Whether this is the exiting thread, whose own calls are not delayed.
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
