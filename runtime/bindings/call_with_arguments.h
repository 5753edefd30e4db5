// bindings/call_with_arguments.h: a call whose program asks for its arguments, or has
// results that stay on devices until it is over.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "callbacks/pending_regions.h"
#include "callbacks/program_call.h"

namespace bellhop {

namespace nb = nanobind;

// Lives as long as the run may last, and what that keeps.
class CallWithArguments {
 public:
  // Takes the leaves of the arguments as they are now. Throws nb::python_error.
  CallWithArguments(nb::object table, nb::list leaves);
  ~CallWithArguments() { drop_call_pending(call_); }
  // Programs have its address.
  CallWithArguments(const CallWithArguments&) = delete;
  CallWithArguments& operator=(const CallWithArguments&) = delete;

  // What the program is given in the place of its table, a new reference; null with a
  // Python error set.
  PyObject* handle() const;

 private:
  friend void define_call_with_arguments(nb::module_& m);

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(&call_); }

  nb::object table_;
  nb::list leaves_;
  ProgramCall call_;
};

// The type of them in Python.
void define_call_with_arguments(nb::module_& m);

}  // namespace bellhop
