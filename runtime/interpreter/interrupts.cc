// interpreter/interrupts.cc: Ctrl-C, where the main thread cannot say that it
// came.
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

std::atomic<bool> waits{false};
std::atomic<Handler> pythons{nullptr};

// From the handler, which may do hardly anything, to a thread, which may.
struct Pipe {
  int out = -1;
  std::atomic<int> in{-1};
};
Pipe wire;

void* image_of(void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

// Others' handlers are left alone: who stands in front of one that stands in front of
// oneself calls for ever.
bool is_pythons(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler != SIG_DFL &&
         action.sa_handler != SIG_IGN &&
         image_of(reinterpret_cast<void*>(action.sa_handler)) ==
             image_of(reinterpret_cast<void*>(&PyErr_CheckSignals));
}

void observe(int number) {
  const int error = errno;
  pythons.load()(number);
  waits.store(true);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wire.in.load(), &byte, 1);
  errno = error;
}

// Python calls it in the main thread, after the signal's own handler.
int end_wait(void*) {
  waits.store(false);
  return 0;
}

void watch(int out) {
  char byte;
  while (true) {
    const ssize_t size = read(out, &byte, 1);
    if (size == 0 || (size < 0 && errno != EINTR)) return;
    if (size == 1 && Py_AddPendingCall(end_wait, nullptr) != 0) waits.store(false);
  }
}

bool begin_watch() {
  int ends[2];
  if (pipe(ends) != 0) return false;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  try {
    // It outlives everything.
    std::thread(watch, ends[0]).detach();
  } catch (const std::system_error&) {
    for (const int end : ends) close(end);
    return false;
  }
  wire.out = ends[0];
  wire.in.store(ends[1]);
  return true;
}

}  // namespace

bool interrupt_waits() { return waits.load(std::memory_order_relaxed); }

bool is_unobserved() {
  struct sigaction action;
  return sigaction(SIGINT, nullptr, &action) == 0 && is_pythons(action);
}

void observe_interrupts() {
  // One thread at a time makes the pipe. Who holds the mutex takes no other lock.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction action;
  if (sigaction(SIGINT, nullptr, &action) != 0 || !is_pythons(action)) return;
  if (wire.in.load() < 0 && !begin_watch()) return;
  pythons.store(action.sa_handler);
  action.sa_handler = observe;
  struct sigaction before;
  sigaction(SIGINT, &action, &before);
  // Without a GIL the main thread may have set another one meanwhile.
  if (!is_pythons(before)) sigaction(SIGINT, &before, nullptr);
}

void forget_interrupts() {
  // What comes to the child is not for the parent.
  const int in = wire.in.exchange(-1);
  if (in >= 0) {
    close(in);
    close(wire.out);
    struct sigaction action;
    if (sigaction(SIGINT, nullptr, &action) == 0 && action.sa_handler == observe) {
      action.sa_handler = pythons.load();
      sigaction(SIGINT, &action, nullptr);
    }
  }
  waits.store(false);
}

}  // namespace bellhop
