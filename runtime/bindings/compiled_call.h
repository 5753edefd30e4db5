// bindings/compiled_call.h: the call of a compiled function (QJIT.__call__) in C++.
#pragma once

#include <Python.h>

#include <vector>

namespace bellhop {

// The type `CompiledCall`, of which the type of compiled functions is a subclass (new
// reference), or null with a Python error set.
PyObject* compiled_call_type();

// Runs of compiled functions, in calls of that type and elsewhere: those that begin and
// end elsewhere, and how many are under way.
void begin_run();
void end_run();
Py_ssize_t runs_under_way();

// The identifiers of the threads that are in such a call, for which Python has no
// frame.
std::vector<unsigned long> threads_in_calls();

// In the child of a fork, where only this thread is left.
void forget_callers();

}  // namespace bellhop
