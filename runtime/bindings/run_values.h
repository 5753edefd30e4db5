// bindings/run_values.h: Python functions that store values for an execution.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the functions to the module.
void define_run_values(nanobind::module_& m);

}  // namespace bellhop
