// bellhop/failures.h: Python exceptions on their way from a callback to the caller.
#pragma once

#include <Python.h>

#include <cstdint>

namespace bellhop {

// XLA carries only text between a failed call and its caller, so the exception
// object waits here under the run id that the text names. All of it needs the GIL.

// Steals `exception`. The first exception of a run is the one that is kept.
void keep_failure(int64_t run_id, PyObject* exception);

// The exception of a run (new reference), or null.
PyObject* take_failure(int64_t run_id);

}  // namespace bellhop
