// bindings/native_function.h: how the frontend describes a C function.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

void define_native_function(nanobind::module_& m);

}  // namespace bellhop
