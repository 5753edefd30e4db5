// bindings/joint_run.cc: the Python class of runs whose devices wait for each other.
#include "bindings/joint_run.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "callbacks/callback_table.h"
#include "ffi/joint_runs.h"
#include "ffi/run_cleanup.h"

namespace bellhop {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void begin_joint_run(JointRun* self, const CallbackTable& table, std::size_t devices) {
  new (self) JointRun(&table, devices);
}

// Ends a run and returns its error messages. Called without the GIL, since releasing
// the resources of the run may wait for a thread that needs the GIL.
std::vector<std::string> end_joint_run(JointRun& run) {
  JointRun::Failures failures = run.end();
  for (const std::int64_t run_id : failures.left) release_run(run_id);
  return std::move(failures.texts);
}

}  // namespace

void define_joint_run(nb::module_& m) {
  nb::class_<JointRun>(
      m, "JointRun",
      "A run whose devices wait for each other; created before it begins.")
      .def("__init__", &begin_joint_run, "table"_a, "devices"_a)
      .def("end", &end_joint_run, nb::call_guard<nb::gil_scoped_release>(),
           "End the run; return its error messages, the first one first.");
}

}  // namespace bellhop
