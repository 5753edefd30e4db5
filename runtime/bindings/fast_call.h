// bindings/fast_call.h: whether a call of a compiled function is no more than one of
// JAX's.
#pragma once

#include <nanobind/nanobind.h>

#include <array>

namespace bellhop {

namespace nb = nanobind;

// What a call needs, as Python says it. Nothing in it changes, so that other threads
// see all of it or none.
struct FastCall {
  nb::object jit;        // JAX's function
  nb::object handle;     // its first argument, that of the table
  nb::object value_of;   // function: the value of such an object
  nb::tuple contexts;    // objects, each followed by the value that it must have
  nb::tuple defaults;    // the same, of what may be another one from call to call
  nb::tuple settings;    // objects, each followed by its `value` during the call
  nb::tuple unless;      // sets and lists, all of which must be empty
  nb::tuple others;      // types of arguments that need _specially
  nb::tuple special;     // types of results that need _specially
  nb::object declared;   // None, or a tuple for each argument: dtype, shape, type of
                         // scalars, and a tuple of the Python types that become one
  Py_ssize_t most_runs;  // with so many under way, of all functions, _specially
  bool waits;            // whether the run may be under way still when JAX returns
  bool begins_here;      // whether it must begin at once, on its caller's thread
  // How a run is made to begin at once, see may_begin:
  nb::object arrays;        // the type of JAX's arrays
  nb::object numpy_arrays;  // that of NumPy's
  nb::object flatten;       // function: a tuple that begins with the leaves of a pytree
  nb::object make_ready;    // function of args and kwargs: both, with arrays that are
  nb::object table;         // None, or that of programs which ask for their arguments

  // Whether nothing but the number of runs asks for more.
  bool can_be_fast(PyObject* args) const;

  // The tuple of arguments in their declared types (new reference); or null, with no
  // error set, if Python must convert them.
  PyObject* convert_arguments(PyObject* args, PyObject* kwargs) const;

  // Whether a run may begin at once. False where that cannot be told.
  bool can_begin_here(PyObject* args, PyObject* kwargs) const;

  // Whether a call that has returned this asks for more.
  bool needs_slow_path(PyObject* result) const;

  auto objects() const {
    return std::array{jit.ptr(),      handle.ptr(),     value_of.ptr(),
                      contexts.ptr(), defaults.ptr(),   settings.ptr(),
                      unless.ptr(),   others.ptr(),     special.ptr(),
                      declared.ptr(), arrays.ptr(),     numpy_arrays.ptr(),
                      flatten.ptr(),  make_ready.ptr(), table.ptr()};
  }
  bool operator==(const FastCall& other) const {
    return objects() == other.objects() && most_runs == other.most_runs &&
           waits == other.waits && begins_here == other.begins_here;
  }
};

// The type of them in Python.
void define_fast_call(nb::module_& m);

}  // namespace bellhop
