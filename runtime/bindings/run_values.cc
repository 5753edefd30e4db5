// bindings/run_values.cc: Python functions that store values for an execution.
#include "bindings/run_values.h"

#include <cstdint>
#include <string>

#include "callbacks/pending_regions.h"

namespace nb = nanobind;

namespace bellhop {

using namespace nb::literals;

namespace {

// Returns the value of a handle, or raises KeyError if it is null. Steals the
// reference.
nb::object steal_or_raise(PyObject* value, std::uint64_t handle) {
  if (value == nullptr)
    throw nb::key_error(("bellhop: internal error: no value is stored under handle " +
                         std::to_string(handle) +
                         ". Please report this as a bug in Bellhop.")
                            .c_str());
  return nb::steal(value);
}

}  // namespace

void define_run_values(nb::module_& m) {
  m.def("pending_regions", &pending_regions,
        "Return how many started regions and device arrays are stored.");
  m.def(
      "hold", [](nb::object value) { return keep_pending(value.release().ptr()); },
      "value"_a,
      "Store an object for the execution that this thread makes a call for; return its "
      "handle.");
  m.def(
      "held",
      [](std::uint64_t handle) { return steal_or_raise(find_pending(handle), handle); },
      "handle"_a, "Return the object of a handle.");
  m.def(
      "take_held",
      [](std::uint64_t handle) { return steal_or_raise(take_pending(handle), handle); },
      "handle"_a, "Remove and return the object of a handle.");
  m.def(
      "argument_of_call",
      [](Py_ssize_t number) {
        PyObject* const arguments = CurrentRun::get().call->arguments;
        const Py_ssize_t count = arguments == nullptr ? 0 : PyList_GET_SIZE(arguments);
        if (number >= count) {
          throw nb::index_error(
              ("bellhop: internal error: argument " + std::to_string(number) +
               " of the program was requested, but the program was called with " +
               std::to_string(count) +
               " arguments. Please report this as a bug in Bellhop.")
                  .c_str());
        }
        return nb::borrow(PyList_GET_ITEM(arguments, number));
      },
      "number"_a,
      "Return an argument of the program that this thread makes a call for.");
}

}  // namespace bellhop
