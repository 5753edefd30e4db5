// bellhop/invocation.h: calling a Python function with buffers.
#pragma once

#include <Python.h>

#include <span>

#include "bellhop/callback_table.h"
#include "bellhop/numpy_arrays.h"

namespace bellhop {

// Calls a function with the arguments as arrays and stores what it returns in
// `results`. Null where that went well, else the exception (new reference), with a
// note that says where it happened. Needs the GIL.
PyObject* invoke(Callback& callback, std::span<const BufferView> arguments,
                 std::span<const BufferView> results);

}  // namespace bellhop
