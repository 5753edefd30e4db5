// bellhop/failures.h: Python exceptions on their way from a callback to the caller.
#pragma once

#include <Python.h>

#include <cstdint>

namespace bellhop {

// XLA carries only text between a failed call and its caller, so the exception
// object waits here under a number that the text names. Ids of runs will not do:
// two executables of the same text may share them. All of it needs the GIL.

// Steals `exception`; returns its number.
int64_t keep_failure(PyObject* exception);

// The exception of that number (new reference), or null.
PyObject* take_failure(int64_t number);

}  // namespace bellhop
