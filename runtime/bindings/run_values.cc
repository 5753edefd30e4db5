// bindings/run_values.cc: what Python keeps for the runs of programs, and takes.
#include "bindings/run_values.h"

#include <cstdint>

#include "callbacks/pending_regions.h"

namespace nb = nanobind;

namespace bellhop {

using namespace nb::literals;

namespace {

// Steals the reference, which is null where there is nothing.
nb::object steal_or_raise(PyObject* value) {
  if (value == nullptr) throw nb::key_error("bellhop: nothing is held under a handle");
  return nb::steal(value);
}

}  // namespace

void define_run_values(nb::module_& m) {
  m.def("pending_regions", &pending_regions,
        "How many started regions, and arrays on devices, wait now.");
  m.def(
      "hold", [](nb::object value) { return keep_pending(value.release().ptr()); },
      "value"_a,
      "Keep an object for the run whose call this thread makes; return its handle.");
  m.def(
      "held", [](std::uint64_t handle) { return steal_or_raise(find_pending(handle)); },
      "handle"_a, "Return what is kept under a handle.");
  m.def(
      "take_held",
      [](std::uint64_t handle) { return steal_or_raise(take_pending(handle)); },
      "handle"_a, "Return what is kept under a handle, which stands for nothing then.");
  m.def(
      "argument_of_call",
      [](Py_ssize_t number) {
        PyObject* const arguments = CurrentRun::get().call->arguments;
        if (arguments == nullptr || number >= PyList_GET_SIZE(arguments))
          throw nb::index_error("bellhop: a program was called without its arguments");
        return nb::borrow(PyList_GET_ITEM(arguments, number));
      },
      "number"_a, "Return an argument of the program whose call this thread makes.");
}

}  // namespace bellhop
