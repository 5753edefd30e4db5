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

// A call counts itself before it looks at the other, and the end of the process closes
// before it looks at the count: one of them sees the other.
std::atomic<int64_t> under_way{0};
std::atomic<bool> closed{false};
// The thread that closed, and does what is left.
thread_local bool closes = false;

// The same of threads of Python's, and how many calls this one is in.
std::atomic<int64_t> under_way_there{0};
thread_local int calls_of_thread = 0;

bool begin() {
  under_way.fetch_add(1);
  if (!closed.load()) return true;
  under_way.fetch_sub(1);
  return false;
}

void begin_there() {
  if (calls_of_thread++ > 0) return;
  under_way_there.fetch_add(1);
  if (!closed.load() || closes) return;
  under_way_there.fetch_sub(1);
  std::this_thread::sleep_for(kAtMost);
  under_way_there.fetch_add(1);
}

}  // namespace

PythonCall::Count::Count()
    : is_thread_of_python_(PyGILState_GetThisThreadState() != nullptr),
      may_call_(is_thread_of_python_ || begin()) {
  if (is_thread_of_python_) begin_there();
}

PythonCall::Count::~Count() {
  if (!is_thread_of_python_) {
    if (may_call_) under_way.fetch_sub(1);
  } else if (--calls_of_thread == 0) {
    under_way_there.fetch_sub(1);
  }
}

bool close_calls() {
  closes = true;
  closed.store(true);
  const auto since = std::chrono::steady_clock::now();
  while (under_way.load() > 0 ||
         (under_way_there.load() > 0 &&
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
  under_way.store(0);
  under_way_there.store(calls_of_thread > 0);
}

}  // namespace bellhop
