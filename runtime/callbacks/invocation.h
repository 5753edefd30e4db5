// callbacks/invocation.h: call a Python function with XLA buffers.
//
// All functions need the GIL. They return null on success, and otherwise the exception
// (new reference) with a note that names the callback and its call site.
#pragma once

#include <Python.h>

#include <span>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// Calls a callback's function with the arguments as arrays, and stores its results in
// `results`.
PyObject* invoke(Callback& callback, std::span<const BufferView> arguments,
                 std::span<const BufferView> results);

// Starts a region by calling the function's method `start` with the arguments. Sets
// `finish` to its result (new reference), a function that waits for the region.
PyObject* start_region(Callback& callback, std::span<const BufferView> arguments,
                       PyObject** finish);

// Waits for a region by calling the result of start_region, and stores its results in
// `results`.
PyObject* finish_region(Callback& callback, PyObject* finish,
                        std::span<const BufferView> results);

}  // namespace bellhop
