// interpreter/daemon_threads.h: let threads that Python ends at exit sleep instead.
//
// While the interpreter finalizes, Python before 3.14 ends a daemon thread that
// requests the GIL, by pthread_exit, which unwinds the thread's frames as an exception
// does. Unwinding C++ frames of Bellhop or JAX that way ends the process. So such a
// thread sleeps here until the process has ended, as it does in Python 3.14.
#pragma once

#include <utility>

namespace bellhop {

// Installs a std::terminate handler in which a thread that Python has ended sleeps
// forever. Called once. `is_main_thread` returns whether the calling thread is the main
// thread, which never sleeps.
void install_terminate_handler(bool (*is_main_thread)());

// Calls a function that may take the GIL and does not throw C++ exceptions. If Python
// ends this thread during the call, `noexcept` stops the unwinding and the terminate
// handler puts the thread to sleep.
template <typename Function>
decltype(auto) call_or_sleep(Function&& function) noexcept {
  return std::forward<Function>(function)();
}

}  // namespace bellhop
