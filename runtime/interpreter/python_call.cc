// interpreter/python_call.cc: counting calls of Python's, to let them end.
#include "interpreter/python_call.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace bellhop {
namespace {

constexpr std::chrono::milliseconds kLookForCalls{1};

// A call counts itself before it looks at the other, and the end of the process closes
// before it looks at the count: one of them sees the other.
std::atomic<int64_t> under_way{0};
std::atomic<bool> closed{false};

}  // namespace

bool PythonCall::begin() {
  under_way.fetch_add(1);
  if (!closed.load()) return true;
  end();
  return false;
}

void PythonCall::end() { under_way.fetch_sub(1); }

bool close_calls() {
  closed.store(true);
  while (under_way.load() > 0) {
    {
      NoGil no_gil;
      std::this_thread::sleep_for(kLookForCalls);
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
  return true;
}

void forget_calls() { under_way.store(0); }

}  // namespace bellhop
