// interpreter/daemon_threads.cc: the std::terminate handler for threads that Python
// ends.
#include "interpreter/daemon_threads.h"

#include <Python.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

namespace bellhop {

#if PY_VERSION_HEX < 0x030E0000

namespace {

std::terminate_handler former = nullptr;
bool (*is_main)() = nullptr;

// Returns whether the interpreter is finalizing.
bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Sleeps forever if pthread_exit unwinds this thread; otherwise calls the previous
// handler. pthread_exit does not throw a C++ exception, so current_exception() is null.
[[noreturn]] void terminate() {
  if (is_finalizing() && !is_main() && std::current_exception() == nullptr) {
    while (true) pause();
  }
  if (former != nullptr) former();
  std::abort();
}

}  // namespace

void install_terminate_handler(bool (*is_main_thread)()) {
  is_main = is_main_thread;
  former = std::set_terminate(terminate);
}

#else

void install_terminate_handler(bool (*)()) {}

#endif

}  // namespace bellhop
