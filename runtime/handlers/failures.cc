// runtime/handlers/failures.cc: Python exceptions on their way to the caller.
#include "bellhop/failures.h"

#include <deque>
#include <random>
#include <utility>

namespace bellhop {
namespace {

// XLA reports one failure of a run, and nobody comes for others: only the newest wait.
constexpr size_t kWaiting = 64;
std::deque<std::pair<int64_t, PyObject*>> waiting;

// Not counted: a user's text that names a number must not get what waits under it.
int64_t new_number() {
  static std::random_device source;
  return static_cast<int64_t>((uint64_t{source()} << 31) ^ source());
}

}  // namespace

int64_t keep_failure(PyObject* exception) {
  const int64_t number = new_number();
  waiting.emplace_back(number, exception);
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
