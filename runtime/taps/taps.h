// taps/taps.h: calls that the program does not wait for.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// Leaves a call to the consumer's thread, which makes all calls in the order in which
// they were left. Copies the arguments. May block, so it must not be called with the
// GIL; may throw std::bad_alloc and std::system_error.
void tap(const std::shared_ptr<Callback>& callback,
         std::span<const BufferView> arguments);

// The rest needs the GIL, and releases it while it waits.

// Waits until all calls that were left so far are over; at once where one of these
// asks. With `is_patient` false, no longer than a second for any single call. False
// with a Python error set where a signal interrupted it.
bool wait_for_taps(bool is_patient);

// The exceptions of the calls since the last time (new references), and how many more
// there were than are kept.
struct TapFailures {
  std::vector<PyObject*> exceptions;
  size_t dropped = 0;
};
TapFailures take_tap_failures();

// The most bytes of arguments that may wait; `set_tap_limit` returns what it was
// before.
size_t tap_limit();
size_t set_tap_limit(size_t bytes);

// How many calls were left that are not over yet.
uint64_t waiting_taps();

// At the end of the process: waits for the calls that were left before, and ends the
// thread; says so where it takes long. After so many seconds no more of them are made,
// which it says too. Those that come later are made by who comes with them, then. False
// with a Python error set, as above.
bool close_taps(int seconds);

// In the child of a fork, which has no consumer: what waits is the parent's.
void forget_taps();

}  // namespace bellhop
