// interpreter/failures.cc: store the exceptions of failed executions for the Python
// caller.
#include "interpreter/failures.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

namespace bellhop {
namespace {

// XLA reports only one failure of an execution, so other failures are never taken. For
// each call, and for all threads without a call (XLA's threads, plain jax.jit), only
// the newest failures are kept.
constexpr size_t kWaitingInCall = 64;
constexpr size_t kWaitingElsewhere = 4096;

thread_local constinit CallFailures* current_call = nullptr;

// Failures by id, each with the call on whose thread it was stored (null: no call).
template <typename T>
class FailureStore {
 public:
  using Owner = const CallFailures*;

  // Adds a failure. Returns the oldest failure of the same owner if it now has too
  // many.
  std::optional<T> add(int64_t number, T failure) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({number, current_call, std::move(failure)});
    const size_t most = current_call == nullptr ? kWaitingElsewhere : kWaitingInCall;
    if (entries_.size() <= most) return std::nullopt;
    const auto count = std::ranges::count(entries_, current_call, &Entry::owner);
    if (static_cast<size_t>(count) <= most) return std::nullopt;
    return remove(std::ranges::find(entries_, current_call, &Entry::owner));
  }

  // Removes and returns a failure by id.
  std::optional<T> take(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find(entries_, number, &Entry::number);
    return entry == entries_.end() ? std::nullopt : std::optional(remove(entry));
  }

  // Removes and returns the oldest failure of an owner.
  std::optional<T> take_any(Owner owner) {
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find(entries_, owner, &Entry::owner);
    return entry == entries_.end() ? std::nullopt : std::optional(remove(entry));
  }

  // Returns `share(failure)` for the failure with an id, called under the lock so that
  // no other thread can remove the failure meanwhile.
  auto look(int64_t number, auto&& share) {
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find(entries_, number, &Entry::number);
    return entry == entries_.end() ? std::nullopt
                                   : std::optional(share(entry->failure));
  }

 private:
  struct Entry {
    int64_t number;
    Owner owner;
    T failure;
  };

  T remove(typename std::deque<Entry>::iterator entry) {
    T failure = std::move(entry->failure);
    entries_.erase(entry);
    return failure;
  }

  std::mutex mutex_;
  std::deque<Entry> entries_;
};

// Never destroyed, because a program may fail while the process exits.
auto& exceptions = *new FailureStore<PyObject*>;
auto& messages = *new FailureStore<std::string>;

// Draws a random id. Consecutive ids could be guessed: a user's message that contains
// an id must not retrieve a stored failure.
int64_t new_number() {
  static std::mutex mutex;
  static std::random_device source;
  const std::lock_guard lock(mutex);
  return static_cast<int64_t>((uint64_t{source()} << 31) ^ source());
}

}  // namespace

CallFailures::CallFailures() : outer_(current_call) { current_call = this; }

CallFailures::~CallFailures() {
  current_call = outer_;
  if (!has_any_) return;
  while (messages.take_any(this)) {
  }
  while (const auto exception = exceptions.take_any(this)) Py_DECREF(*exception);
}

void CallFailures::mark_failure() {
  if (current_call != nullptr) current_call->has_any_ = true;
}

int64_t keep_failure(PyObject* exception) {
  const int64_t number = new_number();
  CallFailures::mark_failure();
  if (const auto oldest = exceptions.add(number, exception)) Py_DECREF(*oldest);
  return number;
}

int64_t keep_failure(std::string message) {
  const int64_t number = new_number();
  CallFailures::mark_failure();
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

std::string make_failure_text(PyObject* exception, const std::string& where,
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
