// bindings/joint_run.h: the Python class of runs whose devices wait for each other.
#pragma once

#include <nanobind/nanobind.h>

namespace bellhop {

// Adds the class JointRun to the module.
void define_joint_run(nanobind::module_& m);

}  // namespace bellhop
