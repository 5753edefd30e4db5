// runtime/handlers/failures.cc: Python exceptions on their way to the caller.
#include "bellhop/failures.h"

#include <deque>
#include <utility>

namespace bellhop {
namespace {

// Outside qjit nobody comes for an exception, so only the newest wait.
constexpr size_t kWaiting = 64;
std::deque<std::pair<int64_t, PyObject*>> waiting;

}  // namespace

void keep_failure(int64_t run_id, PyObject* exception) {
  for (const auto& [id, kept] : waiting) {
    if (id == run_id) {
      Py_DECREF(exception);
      return;
    }
  }
  waiting.emplace_back(run_id, exception);
  if (waiting.size() > kWaiting) {
    PyObject* oldest = waiting.front().second;
    waiting.pop_front();
    Py_DECREF(oldest);
  }
}

PyObject* take_failure(int64_t run_id) {
  for (auto entry = waiting.begin(); entry != waiting.end(); ++entry) {
    if (entry->first == run_id) {
      PyObject* exception = entry->second;
      waiting.erase(entry);
      return exception;
    }
  }
  return nullptr;
}

}  // namespace bellhop
