// bindings/call_with_arguments.h: a call whose program reads its arguments through
// handlers.
//
// Programs with regions take arguments from the call, and may keep results on devices
// until the call has ended.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "callbacks/pending_regions.h"
#include "callbacks/program_call.h"

namespace bellhop {

namespace nb = nanobind;

// A call of a program, with its arguments. Lives at least as long as the execution; its
// destructor drops the values that the execution still keeps on devices.
class CallWithArguments {
 public:
  // `table` is the Python object of the program's CallbackTable, and `leaves` the
  // arrays that regions read, by index of the program's argument; both are kept alive.
  // Copies the NumPy arrays in `leaves` in place: a callback may write into the
  // caller's array before a region reads it. Needs the GIL. Throws nb::python_error.
  CallWithArguments(nb::object table, nb::list leaves);
  ~CallWithArguments() { drop_call_pending(call_); }
  // Programs contain the address of this object, so it cannot move.
  CallWithArguments(const CallWithArguments&) = delete;
  CallWithArguments& operator=(const CallWithArguments&) = delete;

  // Returns the address of the call as a u32[2] array, which the program takes in the
  // place of its table. Needs the GIL. New reference; null with a Python error set.
  PyObject* handle() const;

 private:
  friend void define_call_with_arguments(nb::module_& m);

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(&call_); }

  nb::object table_;
  nb::list leaves_;
  ProgramCall call_;
};

// Adds the class CallWithArguments to the module.
void define_call_with_arguments(nb::module_& m);

}  // namespace bellhop
