// interpreter/signals.cc: looking for signals, at a bounded cost.
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

// Set as the other is. Whoever looks first, there is a look of the main thread.
std::atomic<bool> are_due_elsewhere{true};

// Makes signals due one period after it was wound, and sleeps until it is again.
class Ticker {
 public:
  void wind() {
    {
      std::lock_guard lock(mutex_);
      is_wound_ = true;
      if (!std::exchange(is_running_, true)) std::thread([this] { run(); }).detach();
    }
    wound_.notify_one();
  }

 private:
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

// Never destroyed: its thread outlives everything. Replaced in the child of a fork,
// where there is no such thread.
Ticker* ticker = new Ticker;

// Lets the time pass until the next look.
void schedule_next_look(std::atomic<bool>& due) {
  due.store(false, std::memory_order_relaxed);
  try {
    ticker->wind();
  } catch (const std::system_error&) {
    // Without another thread there are no signals but at each call.
    due.store(true, std::memory_order_relaxed);
  }
}

// Takes the current Python error. As circuits fail, which know not either in what sort
// of program they are.
std::string take_interruption_text() {
  return make_failure_text(take_exception(), "the handler of a signal",
                           "circuit failure");
}

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

// Whether what runs here runs for the main thread, and Python's handler ends it.
bool should_end_this_run() {
  try {
    const auto module = nb::module_::import_("bellhop_runtime._interrupts");
    return module.attr("end_what_runs")().is(nb::handle(Py_True));
  } catch (const nb::python_error&) {
    return false;
  }
}

// The main thread may wait in XLA for what runs here. Then nobody handles the signal
// before the run has ended; so it ends, and Python does what it does.
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
