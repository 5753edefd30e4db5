// interpreter/signals.cc: looking for signals, at a bounded cost.
#include "interpreter/signals.h"

#include <Python.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "interpreter/failures.h"
#include "interpreter/gil.h"

namespace bellhop {

std::atomic<bool> signals_are_due{true};

namespace {

constexpr std::chrono::milliseconds kPeriod{50};

std::atomic<unsigned long> main_thread{0};

// Makes signals due one period after it was wound, and sleeps until it is again.
class Ticker {
 public:
  void wind() {
    signals_are_due.store(false, std::memory_order_relaxed);
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

}  // namespace

void look_for_signals() {
  if (PyThread_get_thread_ident() != main_thread.load(std::memory_order_relaxed)) {
    return;
  }
  try {
    ticker->wind();
  } catch (const std::system_error&) {
    // Without another thread there are no signals but at each call.
    signals_are_due.store(true, std::memory_order_relaxed);
  }
  std::string text;
  {
    const Gil gil;
    if (PyErr_CheckSignals() == 0) return;
    // As circuits fail, which know not either in what sort of program they are.
    text = failure_text(take_exception(), "the handler of a signal", "circuit failure");
  }
  throw Interrupted(text);
}

bool init_signals() {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* thread = threading == nullptr
                         ? nullptr
                         : PyObject_CallMethod(threading, "main_thread", nullptr);
  PyObject* ident =
      thread == nullptr ? nullptr : PyObject_GetAttrString(thread, "ident");
  if (ident != nullptr) main_thread.store(PyLong_AsUnsignedLong(ident));
  Py_XDECREF(ident);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  return PyErr_Occurred() == nullptr;
}

void forget_signals() {
  ticker = new Ticker;
  main_thread.store(PyThread_get_thread_ident());
  signals_are_due.store(true);
}

}  // namespace bellhop
