// bindings/fast_call.h: decide whether a call of a compiled function only has to call
// JAX.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <optional>

namespace bellhop {

namespace nb = nanobind;

// The arguments of a call, split into static and dynamic arguments.
struct SplitArguments {
  nb::object key;     // Static.key of the static arguments; null without static ones
  nb::object args;    // dynamic positional arguments
  nb::object kwargs;  // dynamic keyword arguments; null if there are none
};

// Facts about the NumPy arrays among the arguments of a call.
struct NumpyArguments {
  // Whether Python must check the arguments: an array is masked, or has another
  // byte order than this machine's, which JAX's cache of compiled calls does not
  // distinguish, or the nesting of containers is too deep.
  bool need_check = false;
  // Whether XLA may copy an array after the call has returned, when the caller may have
  // changed it.
  bool is_copied_later = false;
};

// The data for fast calls of a compiled function, set by Python. Immutable, so that
// other threads see either all of it or none.
struct FastCall {
  nb::object jit;       // JAX's C++ function
  nb::object handle;    // its first argument, the callback table's handle, or None
  nb::object value_of;  // function that returns the value of a configuration state
  nb::tuple contexts;   // configuration states, each followed by its required value
  nb::tuple defaults;   // Like contexts, for states that may differ from call to call.
  nb::tuple settings;   // states, each followed by its value during the call
  nb::tuple unless;     // sets and lists; if one is not empty, use the slow path
  nb::tuple others;     // argument types that need the slow path
  nb::tuple special;    // result types that need the slow path
  // None, or for each argument a tuple: dtype, shape, scalar constructor, and a tuple
  // of the Python types that the constructor accepts.
  nb::object declared;
  // Positions and names of the static arguments, both ascending. Empty if the function
  // has none.
  nb::tuple static_positions;
  nb::tuple static_names;
  // With this many active runs of all functions, use the slow path.
  Py_ssize_t most_runs;
  bool waits;        // whether the run may still be active when JAX returns
  bool begins_here;  // whether the run must begin at once, on its caller's thread
  // For runs that must begin on their caller's thread, see can_begin_here:
  nb::object arrays;         // JAX's array type
  nb::object masked_arrays;  // NumPy's type of masked arrays
  // Function that returns a tuple whose first item is a pytree's leaves.
  nb::object flatten;
  nb::object make_ready;  // function (args, kwargs) that returns both with ready arrays
  nb::object table;       // None, or the table of programs that read their arguments

  // Returns whether a call with these positional arguments may be fast, apart from the
  // number of active runs. Like all functions below, needs the GIL.
  bool can_be_fast(PyObject* args) const;

  // Returns the positional arguments converted to the types in `declared`, as a tuple
  // (new reference). Returns null with no error set if Python must convert them.
  // `kwargs` is a dictionary or null.
  PyObject* convert_arguments(PyObject* args, PyObject* kwargs) const;

  bool has_static() const { return static_positions.size() + static_names.size() > 0; }

  // Splits the arguments of a call. Returns nothing, with no error set, if Python must
  // do it: a static argument has no hash.
  std::optional<SplitArguments> split(PyObject* args, PyObject* kwargs) const;

  // Finds the NumPy arrays among the leaves of the arguments.
  NumpyArguments find_numpy_arguments(PyObject* args, PyObject* kwargs) const;

  // Waits until the execution that returned a result has finished. Returns false with a
  // Python error set if that fails.
  bool wait_for_result(PyObject* result) const;

  // Returns whether a run can begin at once on its caller's thread, since all arguments
  // are ready. Returns false if that is unknown.
  bool can_begin_here(PyObject* args, PyObject* kwargs) const;

  // Returns whether a call with this result needs the slow path after all.
  bool needs_slow_path(PyObject* result) const;

  // Returns all Python objects, for comparison and for the garbage collector.
  auto objects() const {
    return std::array{
        jit.ptr(),         handle.ptr(),     value_of.ptr(), contexts.ptr(),
        defaults.ptr(),    settings.ptr(),   unless.ptr(),   others.ptr(),
        special.ptr(),     declared.ptr(),   arrays.ptr(),   masked_arrays.ptr(),
        flatten.ptr(),     make_ready.ptr(), table.ptr(),    static_positions.ptr(),
        static_names.ptr()};
  }
  bool operator==(const FastCall& other) const {
    return objects() == other.objects() && most_runs == other.most_runs &&
           waits == other.waits && begins_here == other.begins_here;
  }
};

// Adds the class FastCall to the module.
void define_fast_call(nb::module_& m);

}  // namespace bellhop
