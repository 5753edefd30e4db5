// runtime/handlers/failures.cc: Python exceptions on their way to the caller.
#include "bellhop/failures.h"

#include <deque>
#include <utility>

namespace bellhop {
namespace {

// XLA reports one failure of a run, and nobody comes for others: only the newest wait.
constexpr size_t kWaiting = 64;
std::deque<std::pair<int64_t, PyObject*>> waiting;
int64_t newest = 0;

}  // namespace

int64_t keep_failure(PyObject* exception) {
  waiting.emplace_back(++newest, exception);
  const int64_t number = newest;
  if (waiting.size() > kWaiting) {
    PyObject* oldest = waiting.front().second;
    waiting.pop_front();
    Py_DECREF(oldest);
  }
  return number;
}

PyObject* take_failure(int64_t number) {
  for (auto entry = waiting.begin(); entry != waiting.end(); ++entry) {
    if (entry->first == number) {
      PyObject* exception = entry->second;
      waiting.erase(entry);
      return exception;
    }
  }
  return nullptr;
}

}  // namespace bellhop
