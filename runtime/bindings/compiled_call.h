// bindings/compiled_call.h: the call of a compiled function (QJIT.__call__) in C++.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// The type `CompiledCall`, of which the type of compiled functions is a subclass.
// Throws nanobind's python_error.
void define_compiled_call(nanobind::module_& m);

// Runs of compiled functions, in calls of that type and elsewhere: those that begin and
// end elsewhere, and how many are under way.
void begin_run();
void end_run();
Py_ssize_t count_runs();

}  // namespace bellhop
