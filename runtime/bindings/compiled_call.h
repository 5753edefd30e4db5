// bindings/compiled_call.h: the call of a compiled function (QJIT.__call__) in C++.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the type CompiledCall, the base of the type of compiled functions, to the
// module. Throws nanobind's python_error.
void define_compiled_call(nanobind::module_& m);

// Count the beginning and the end of a run of a compiled function that Python starts;
// CompiledCall counts its own runs. May be called from any thread, without the GIL.
void begin_run();
void end_run();
// Returns the number of runs that have begun and not ended, in this process.
Py_ssize_t count_runs();

}  // namespace bellhop
