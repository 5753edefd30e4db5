// bindings/joint_run.h: runs whose devices wait for each other, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the class JointRun to the module.
void define_joint_run(nanobind::module_& m);

}  // namespace bellhop
