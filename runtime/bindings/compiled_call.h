// bindings/compiled_call.h: calling a compiled function, as far as that needs no
// Python.
#pragma once

#include <Python.h>

#include <vector>

namespace bellhop {

// The type `CompiledCall`, of which the type of compiled functions is a subclass (new
// reference), or null with a Python error set.
PyObject* compiled_call_type();

// The threads that are in such a call, of which Python has no frame; with the GIL held.
const std::vector<unsigned long>& threads_in_calls();

}  // namespace bellhop
