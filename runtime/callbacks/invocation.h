// callbacks/invocation.h: calling a Python function with buffers.
#pragma once

#include <Python.h>

#include <span>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// Calls a function with the arguments as arrays and stores what it returns in
// `results`. Null where that went well, else the exception (new reference), with a
// note that says where it happened. Needs the GIL.
PyObject* invoke(Callback& callback, std::span<const BufferView> arguments,
                 std::span<const BufferView> results);

// Starts a region: calls the function's method `start` with the arguments. Like
// invoke; `finish` becomes what it returned (new reference).
PyObject* start_region(Callback& callback, std::span<const BufferView> arguments,
                       PyObject** finish);

// Calls what `start` gave, and stores what it returns in `results`. Like invoke.
PyObject* finish_region(Callback& callback, PyObject* finish,
                        std::span<const BufferView> results);

}  // namespace bellhop
