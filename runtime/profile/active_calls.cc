// profile/active_calls.cc: the calls and circuits that each thread is executing now.
#include "profile/active_calls.h"

#include <algorithm>
#include <mutex>

namespace bellhop {

namespace {

// All threads that have ever had an active call and still exist. A holder of the mutex
// takes no other lock except the mutexes of one thread. Replaced in the child of a
// fork. Never destroyed, because threads may outlive static objects.
struct Threads {
  std::mutex mutex;
  std::vector<ThreadActivity*> all;
};
Threads* threads = new Threads;

}  // namespace

ThreadActivity::ThreadActivity() : thread(PyThread_get_thread_ident()) {
  const std::lock_guard lock(threads->mutex);
  threads->all.push_back(this);
}

ThreadActivity::~ThreadActivity() {
  const std::lock_guard lock(threads->mutex);
  std::erase(threads->all, this);
}

ThreadActivity& ThreadActivity::make_here() {
  thread_local ThreadActivity thread;
  known_here_ = &thread;
  return thread;
}

ActiveCircuit::ActiveCircuit(const std::string& circuit, const std::string& device)
    : circuit_(circuit),
      device_(device),
      began_(coarse_clock()),
      thread_(ThreadActivity::here()) {
  const std::lock_guard lock(thread_.circuit_mutex);
  outer_ = thread_.circuit;
  thread_.circuit = this;
}

ActiveCircuit::~ActiveCircuit() {
  const std::lock_guard lock(thread_.circuit_mutex);
  thread_.circuit = outer_;
}

namespace {

// Appends the circuit that a thread is executing, if any, as a call. Drops it if Python
// has no memory for its name.
void append_circuit(ThreadActivity& thread, int64_t now,
                    std::vector<ThreadCalls::Call>& calls) {
  std::string text;
  int64_t began = 0;
  {
    const std::lock_guard lock(thread.circuit_mutex);
    if (thread.circuit == nullptr) return;
    text = thread.circuit->circuit() + " on " + thread.circuit->device();
    began = thread.circuit->began();
  }
  PyObject* what = PyUnicode_FromStringAndSize(text.data(), text.size());
  if (what == nullptr) return PyErr_Clear();
  calls.push_back({what, (now - began) * 1e-9});
}

}  // namespace

std::vector<ThreadCalls> list_active_calls() {
  const int64_t now = coarse_clock();
  std::vector<ThreadCalls> all;
  const std::lock_guard lock(threads->mutex);
  for (ThreadActivity* thread : threads->all) {
    ThreadCalls found{thread->thread, {}};
    {
      const std::lock_guard calls_lock(thread->mutex);
      for (const ActiveCall* call = thread->innermost; call; call = call->outer()) {
        found.calls.push_back({Py_NewRef(call->what()), (now - call->began()) * 1e-9});
      }
    }
    std::reverse(found.calls.begin(), found.calls.end());
    append_circuit(*thread, now, found.calls);
    if (found.calls.empty()) continue;
    all.push_back(std::move(found));
  }
  return all;
}

void forget_active_calls() {
  // The old object is leaked: a thread of the parent process may hold its mutex.
  threads = new Threads;
  threads->all = {&ThreadActivity::here()};
}

}  // namespace bellhop
