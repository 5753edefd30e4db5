// taps/taps.h: taps, which are Python calls that a program does not wait for.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// Queues a call with a copy of its arguments. One thread makes all queued calls, in
// order. Blocks while the queue is full, so the caller must not hold the GIL. May throw
// std::bad_alloc and std::system_error.
void tap(const std::shared_ptr<Callback>& callback,
         std::span<const BufferView> arguments);

// The functions below need the GIL, and release it while they wait.

// Waits until all calls that are queued now have been made. On the thread that makes
// the calls, returns at once. If `is_patient` is false, gives up and returns true when
// no call has ended for one second. Returns false with a Python error set if a signal
// handler raised.
bool wait_for_taps(bool is_patient);

// The exceptions that calls have raised since the last take_tap_failures() (new
// references), and the number of further exceptions that were discarded.
struct TapFailures {
  std::vector<PyObject*> exceptions;
  size_t dropped = 0;
};
TapFailures take_tap_failures();

// The limit for the bytes of all queued calls. `set_tap_limit` returns the previous
// limit.
size_t tap_limit();
size_t set_tap_limit(size_t bytes);

// Returns how many queued calls have not been completed.
uint64_t waiting_taps();

// Called at the exit of the process: closes the queue, waits for the queued calls and
// joins the thread. Prints a message if that takes long. After `seconds`, discards the
// remaining calls and prints how many. Later calls of tap() run on their own thread.
// Returns false with a Python error set if a signal interrupted the wait.
bool close_taps(int seconds);

// Replaces the queue in the child of a fork, which has no consumer thread; the queued
// calls are the parent's.
void forget_taps();

}  // namespace bellhop
