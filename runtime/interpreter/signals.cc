// interpreter/signals.cc: check for signals at a bounded cost.
#include "interpreter/signals.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "interpreter/failures.h"
#include "interpreter/gil.h"
#include "interpreter/interrupts.h"
#include "interpreter/python_call.h"

namespace bellhop {

namespace nb = nanobind;

std::atomic<bool> signals_are_due{true};

namespace {

constexpr std::chrono::milliseconds kPeriod{50};

std::atomic<unsigned long> main_thread{0};

// Like signals_are_due, for threads other than the main thread. There are two flags so
// that other threads' checks cannot use up the main thread's check.
std::atomic<bool> are_due_elsewhere{true};

// A thread that marks signal checks as due one period after `wind` was called, and then
// sleeps until the next `wind`.
class Ticker {
 public:
  // Starts a period, and the thread on first use.
  void wind() {
    {
      std::lock_guard lock(mutex_);
      is_wound_ = true;
      if (!std::exchange(is_running_, true)) std::thread([this] { run(); }).detach();
    }
    wound_.notify_one();
  }

 private:
  // The body of the thread.
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wound_.wait(lock, [this] { return is_wound_; });
      is_wound_ = false;
      lock.unlock();
      std::this_thread::sleep_for(kPeriod);
      signals_are_due.store(true, std::memory_order_relaxed);
      are_due_elsewhere.store(true, std::memory_order_relaxed);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wound_;
  bool is_wound_ = false;
  bool is_running_ = false;
};

// Never destroyed, because its thread runs until the process exits. Replaced in the
// child of a fork, which has no such thread.
Ticker* ticker = new Ticker;

// Schedules the next check, one period from now.
void schedule_next_look(std::atomic<bool>& due) {
  due.store(false, std::memory_order_relaxed);
  try {
    ticker->wind();
  } catch (const std::system_error&) {
    // If no thread can be started, every call checks for signals.
    due.store(true, std::memory_order_relaxed);
  }
}

// Takes the current Python error and returns the text that XLA reports for it. It is
// marked as a circuit's failure, because this code too does not know whether the
// program is a plain jax.jit.
std::string take_interruption_text() {
  return make_failure_text(take_exception(), "the handler of a signal",
                           "circuit failure");
}

// Runs the Python handlers of pending signals; throws Interrupted if one raises.
void look_in_main_thread() {
  schedule_next_look(signals_are_due);
  std::string text;
  {
    const Gil gil;
    if (PyErr_CheckSignals() == 0) return;
    text = take_interruption_text();
  }
  throw Interrupted(text);
}

// Returns whether this execution runs on behalf of the main thread and Python's default
// handler would end it.
bool should_end_this_run() {
  try {
    const auto module = nb::module_::import_("bellhop_runtime._interrupts");
    return module.attr("should_end_programs")().is(nb::handle(Py_True));
  } catch (const nb::python_error&) {
    return false;
  }
}

// Throws Interrupted after Ctrl-C if the main thread waits in XLA for this execution:
// nothing else would handle the signal before the execution has ended.
void look_in_other_thread() {
  if (!are_due_elsewhere.load(std::memory_order_relaxed)) return;
  schedule_next_look(are_due_elsewhere);
  if (!has_pending_interrupt() && !has_python_handler()) return;
  std::string text;
  {
    const PythonCall python;
    if (!python) return;
    observe_interrupts();
    if (!has_pending_interrupt() || !should_end_this_run()) return;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    text = take_interruption_text();
  }
  throw Interrupted(text);
}

}  // namespace

bool is_main_thread() {
  return PyThread_get_thread_ident() == main_thread.load(std::memory_order_relaxed);
}

void look_for_signals() {
  if (is_main_thread()) {
    look_in_main_thread();
  } else {
    look_in_other_thread();
  }
}

void init_signals() {
  const auto thread = nb::module_::import_("threading").attr("main_thread")();
  main_thread.store(nb::cast<unsigned long>(thread.attr("ident")));
}

void forget_signals() {
  ticker = new Ticker;
  main_thread.store(PyThread_get_thread_ident());
  signals_are_due.store(true);
  are_due_elsewhere.store(true);
  forget_interrupts();
}

}  // namespace bellhop
