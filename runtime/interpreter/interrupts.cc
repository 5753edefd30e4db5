// interpreter/interrupts.cc: notice Ctrl-C while the main thread waits in XLA.
#include "interpreter/interrupts.h"

#include <Python.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>

namespace bellhop {
namespace {

using Handler = void (*)(int);

std::atomic<bool> is_pending{false};
std::atomic<Handler> python_handler{nullptr};

// Wakes the watching thread from the signal handler, which may only call
// async-signal-safe functions.
struct Pipe {
  int out = -1;
  std::atomic<int> in{-1};
};
Pipe wake_pipe;

// Returns the load address of the library that contains an address, or null.
void* get_library_base(void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

// Returns whether an action is a handler in Python's library. Handlers of other
// libraries stay installed: if two libraries each chained to the other's handler, they
// would call each other forever.
bool is_python_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler != SIG_DFL &&
         action.sa_handler != SIG_IGN &&
         get_library_base(reinterpret_cast<void*>(action.sa_handler)) ==
             get_library_base(reinterpret_cast<void*>(&PyErr_CheckSignals));
}

// The C handler of SIGINT: calls Python's handler, sets the flag and wakes the watching
// thread.
void observe(int number) {
  const int error = errno;
  python_handler.load()(number);
  is_pending.store(true);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wake_pipe.in.load(), &byte, 1);
  errno = error;
}

// Clears the flag. Python calls it in the main thread, after it has run the signal's
// own handler.
int end_wait(void*) {
  is_pending.store(false);
  return 0;
}

// Body of the watching thread: for each byte in the pipe, asks Python to call end_wait
// in the main thread.
void watch(int out) {
  char byte;
  while (true) {
    const ssize_t size = read(out, &byte, 1);
    if (size == 0 || (size < 0 && errno != EINTR)) return;
    if (size == 1 && Py_AddPendingCall(end_wait, nullptr) != 0) is_pending.store(false);
  }
}

// Creates the pipe and starts the watching thread; returns whether both succeeded.
bool begin_watch() {
  int ends[2];
  if (pipe(ends) != 0) return false;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  try {
    // The thread runs until the process exits.
    std::thread(watch, ends[0]).detach();
  } catch (const std::system_error&) {
    for (const int end : ends) close(end);
    return false;
  }
  wake_pipe.out = ends[0];
  wake_pipe.in.store(ends[1]);
  return true;
}

}  // namespace

bool has_pending_interrupt() { return is_pending.load(std::memory_order_relaxed); }

bool has_python_handler() {
  struct sigaction action;
  return sigaction(SIGINT, nullptr, &action) == 0 && is_python_handler(action);
}

void observe_interrupts() {
  // Only one thread creates the pipe. A thread that holds this mutex takes no other
  // lock.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction action;
  if (sigaction(SIGINT, nullptr, &action) != 0 || !is_python_handler(action)) return;
  if (wake_pipe.in.load() < 0 && !begin_watch()) return;
  python_handler.store(action.sa_handler);
  action.sa_handler = observe;
  struct sigaction before;
  sigaction(SIGINT, &action, &before);
  // In a free-threaded Python, the main thread may have installed another handler since
  // the check above.
  if (!is_python_handler(before)) sigaction(SIGINT, &before, nullptr);
}

void forget_interrupts() {
  // The parent's thread must not receive the child's signals, so the child closes its
  // copy of the pipe.
  const int in = wake_pipe.in.exchange(-1);
  if (in >= 0) {
    close(in);
    close(wake_pipe.out);
    struct sigaction action;
    if (sigaction(SIGINT, nullptr, &action) == 0 && action.sa_handler == observe) {
      action.sa_handler = python_handler.load();
      sigaction(SIGINT, &action, nullptr);
    }
  }
  is_pending.store(false);
}

}  // namespace bellhop
