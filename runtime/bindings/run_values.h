// bindings/run_values.h: what Python keeps for the runs of programs, and takes.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// The functions of it in Python.
void define_run_values(nanobind::module_& m);

}  // namespace bellhop
