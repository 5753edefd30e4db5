// bindings/native_function.h: the Python class that describes a C function.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the class NativeFunction to the module.
void define_native_function(nanobind::module_& m);

}  // namespace bellhop
