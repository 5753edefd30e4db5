// profile/active_calls.cc: what each thread is in the middle of, for others to ask.
#include "profile/active_calls.h"

#include <algorithm>
#include <mutex>

namespace bellhop {

namespace {

// Those that ever were in a step. Who holds the mutex takes no other lock, but that of
// one thread. Replaced in the child of a fork; never destroyed, as threads may outlive
// everything.
struct Threads {
  std::mutex mutex;
  std::vector<ThreadUnderWay*> all;
};
Threads* threads = new Threads;

}  // namespace

ThreadUnderWay::ThreadUnderWay() : thread(PyThread_get_thread_ident()) {
  const std::lock_guard lock(threads->mutex);
  threads->all.push_back(this);
}

ThreadUnderWay::~ThreadUnderWay() {
  const std::lock_guard lock(threads->mutex);
  std::erase(threads->all, this);
}

ThreadUnderWay& ThreadUnderWay::first_here() {
  thread_local ThreadUnderWay thread;
  known_here_ = &thread;
  return thread;
}

CircuitUnderWay::CircuitUnderWay(const std::string& circuit, const std::string& device)
    : circuit_(circuit),
      device_(device),
      began_(coarse_clock()),
      thread_(ThreadUnderWay::here()) {
  const std::lock_guard lock(thread_.circuit_mutex);
  around_ = thread_.circuit;
  thread_.circuit = this;
}

CircuitUnderWay::~CircuitUnderWay() {
  const std::lock_guard lock(thread_.circuit_mutex);
  thread_.circuit = around_;
}

namespace {

// A step of its own, if a circuit is under way in a thread; Python has room for it.
void add_circuit(ThreadUnderWay& thread, int64_t now,
                 std::vector<StepsOfThread::Step>& steps) {
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
  steps.push_back({what, (now - began) * 1e-9});
}

}  // namespace

std::vector<StepsOfThread> steps_under_way() {
  const int64_t now = coarse_clock();
  std::vector<StepsOfThread> all;
  const std::lock_guard lock(threads->mutex);
  for (ThreadUnderWay* thread : threads->all) {
    StepsOfThread found{thread->thread, {}};
    {
      const std::lock_guard steps_wait(thread->mutex);
      for (const UnderWay* step = thread->innermost; step; step = step->around()) {
        found.steps.push_back({Py_NewRef(step->what()), (now - step->began()) * 1e-9});
      }
    }
    std::reverse(found.steps.begin(), found.steps.end());
    add_circuit(*thread, now, found.steps);
    if (found.steps.empty()) continue;
    all.push_back(std::move(found));
  }
  return all;
}

void forget_steps() {
  // The old one is left as it is: a thread that is no more may hold its mutex.
  threads = new Threads;
  threads->all = {&ThreadUnderWay::here()};
}

}  // namespace bellhop
