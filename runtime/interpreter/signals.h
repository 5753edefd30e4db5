// interpreter/signals.h: run Python's signal handlers while a program runs.
//
// Python runs signal handlers between its instructions, in the main thread. A program
// may spend hours in C++ handlers that run no Python code, so these check for signals
// themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stdexcept>

namespace bellhop {

// Thrown when a signal handler of Python raised; ends the execution. The text names the
// exception.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether the next check_signals() looks for signals. A thread sets it periodically,
// because reading a clock would take longer than many gates.
extern std::atomic<bool> signals_are_due;

// Returns whether the calling thread is Python's main thread.
bool is_main_thread();

// Lets Python handle signals. In the main thread it runs their handlers. In other
// threads it throws Interrupted after Ctrl-C if the main thread waits for the
// execution.
void look_for_signals();

// Lets Python handle signals if a check is due, and throws Interrupted if a signal
// handler raises. A signal handler may call anything, so the caller must hold no lock
// that it could request, the GIL included; only sessions of the caller's own execution
// may be locked.
inline void check_signals() {
  if (signals_are_due.load(std::memory_order_relaxed)) [[unlikely]]
    look_for_signals();
}

// Elements that a loop may go through between two calls of check_signals: some
// milliseconds of work.
inline constexpr std::size_t kBetweenChecks = std::size_t{1} << 18;

// Calls body(begin, end) for pieces of [0, count), in order, and check_signals before
// each piece. Loops over shots or amplitudes use it: 10^9 elements take seconds, even
// to be zeroed. Throws Interrupted.
template <typename Body>
void for_each_piece(std::size_t count, const Body& body) {
  for (std::size_t begin = 0; begin < count; begin += kBetweenChecks) {
    check_signals();
    body(begin, std::min(count, begin + kBetweenChecks));
  }
}

// Looks up the main thread. Called once, with the GIL held. Throws nanobind's
// python_error.
void init_signals();

// Resets the state in the child of a fork, whose calling thread becomes the main
// thread.
void forget_signals();

}  // namespace bellhop
