// interpreter/signals.h: Python's signal handlers, while a program runs.
//
// Python calls them between its instructions, in its main thread. A program may spend
// hours there in handlers that call no Python, so these look for signals themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stdexcept>

namespace bellhop {

// What a signal's handler raised, which ends the run: its text names the exception.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Set now and then by a thread of its own, since to look at a clock costs more than
// many a gate.
extern std::atomic<bool> signals_are_due;

bool is_main_thread();

void look_for_signals();

// Lets Python handle signals where that is due, and throws Interrupted where a handler
// raises. Nothing may be locked that a handler could ask for, the GIL included, but a
// session of this run.
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

// Once, with the GIL held. Throws what Python raises.
void init_signals();

// In the child of a fork, where the calling thread is the main one.
void forget_signals();

}  // namespace bellhop
