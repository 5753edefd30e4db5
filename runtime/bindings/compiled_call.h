// bindings/compiled_call.h: the call of a compiled function (QJIT.__call__) in C++.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the type CompiledCall, the base of the type of compiled functions, to the
// module. Throws nanobind's python_error.
void define_compiled_call(nanobind::module_& m);

// The number of active runs of compiled functions. CompiledCall counts its own runs;
// begin_run and end_run count the runs that Python starts.
void begin_run();
void end_run();
Py_ssize_t count_runs();

}  // namespace bellhop
