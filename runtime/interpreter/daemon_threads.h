// interpreter/daemon_threads.h: threads that Python ends, when the process ends.
//
// Until 3.13 Python ends a daemon thread where it asks for the GIL and the interpreter
// goes: by pthread_exit, which unwinds the thread's frames as an exception does. Those
// of C++, ours and JAX's, end the process then. As from 3.14 on such threads sleep
// here until the process is no more.
#pragma once

#include <utility>

namespace bellhop {

// Once. The main thread is not among them.
void install_terminate_handler(bool (*is_main_thread)());

// Calls a function that may take the GIL and does not throw. A thread that Python ends
// in it sleeps there: nothing around it may be unwound without the GIL.
template <typename Function>
decltype(auto) call_or_sleep(Function&& function) noexcept {
  return std::forward<Function>(function)();
}

}  // namespace bellhop
