// interpreter/failures.cc: what went wrong in a run, on its way to the caller.
#include "interpreter/failures.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

namespace bellhop {
namespace {

// XLA reports one failure of a run, and nobody comes for others: only the newest wait.
constexpr size_t kWaiting = 64;

template <typename T>
class Waiting {
 public:
  // Returns what has waited too long.
  std::optional<T> add(int64_t number, T failure) {
    const std::lock_guard lock(mutex_);
    entries_.emplace_back(number, std::move(failure));
    if (entries_.size() <= kWaiting) return std::nullopt;
    return remove(entries_.begin());
  }

  std::optional<T> take(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto entry = find(number);
    return entry == entries_.end() ? std::nullopt : std::optional(remove(entry));
  }

  // Returns what `share` makes of it, before anybody else can take it.
  auto look(int64_t number, auto&& share) {
    const std::lock_guard lock(mutex_);
    const auto entry = find(number);
    return entry == entries_.end() ? std::nullopt : std::optional(share(entry->second));
  }

 private:
  using Entries = std::deque<std::pair<int64_t, T>>;

  typename Entries::iterator find(int64_t number) {
    return std::ranges::find(entries_, number, &Entries::value_type::first);
  }

  T remove(typename Entries::iterator entry) {
    T failure = std::move(entry->second);
    entries_.erase(entry);
    return failure;
  }

  std::mutex mutex_;
  Entries entries_;
};

// Leaked: a program may fail while the process ends.
auto& exceptions = *new Waiting<PyObject*>;
auto& messages = *new Waiting<std::string>;

// Not counted: a user's text that names a number must not get what waits under it.
int64_t new_number() {
  static std::mutex mutex;
  static std::random_device source;
  const std::lock_guard lock(mutex);
  return static_cast<int64_t>((uint64_t{source()} << 31) ^ source());
}

}  // namespace

int64_t keep_failure(PyObject* exception) {
  const int64_t number = new_number();
  if (const auto oldest = exceptions.add(number, exception)) Py_DECREF(*oldest);
  return number;
}

int64_t keep_failure(std::string message) {
  const int64_t number = new_number();
  messages.add(number, std::move(message));
  return number;
}

PyObject* take_exception() {
  PyObject* type = nullptr;
  PyObject* exception = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(exception, traceback);
  Py_XDECREF(traceback);
  Py_DECREF(type);
  return exception;
}

std::string failure_text(PyObject* exception, const std::string& where,
                         const char* mark) {
  std::string text = Py_TYPE(exception)->tp_name;
  if (PyObject* message = PyObject_Str(exception)) {
    if (const char* utf8 = PyUnicode_AsUTF8(message)) text += std::string(": ") + utf8;
    Py_DECREF(message);
  }
  PyErr_Clear();
  return text + " (raised in " + where + ") [bellhop " + mark + " " +
         std::to_string(keep_failure(exception)) + "]";
}

PyObject* look_at_failure(int64_t number) {
  const auto share = [](PyObject* exception) { return Py_NewRef(exception); };
  return exceptions.look(number, share).value_or(nullptr);
}

PyObject* take_failure(int64_t number) {
  if (const auto exception = exceptions.take(number)) return *exception;
  const auto message = messages.take(number);
  if (!message) return nullptr;
  return PyUnicode_DecodeUTF8(message->data(), static_cast<Py_ssize_t>(message->size()),
                              "replace");
}

}  // namespace bellhop
