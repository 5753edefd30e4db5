// bindings/fast_call.cc: decide whether a call of a compiled function only has to call
// JAX.
#include "bindings/fast_call.h"

#include <nanobind/operators.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "arrays/numpy_arrays.h"

namespace bellhop {

using namespace nb::literals;

namespace {

// Interned attribute names. They are created while the module loads. Static variables
// of a function could deadlock: a thread that waits for their initialisation holds the
// GIL, which the initialising thread may need.
struct Attributes {
  PyObject* aval = PyUnicode_InternFromString("aval");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* weak_type = PyUnicode_InternFromString("weak_type");
  PyObject* block_until_ready = PyUnicode_InternFromString("block_until_ready");
  PyObject* is_ready = PyUnicode_InternFromString("is_ready");
};
const Attributes* attributes = nullptr;

// Returns whether an attribute is identical or equal to an object. Drops exceptions.
bool attribute_equals(PyObject* object, PyObject* attribute, PyObject* expected) {
  PyObject* const value = PyObject_GetAttr(object, attribute);
  const int equal =
      value == nullptr ? -1 : PyObject_RichCompareBool(value, expected, Py_EQ);
  Py_XDECREF(value);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// Returns an argument converted to its declared type (new reference), or null, with no
// error set, if Python must convert it.
PyObject* convert_leaf(PyObject* arg, PyObject* declared) {
  PyObject* const scalars = PyTuple_GET_ITEM(declared, 3);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(scalars); ++i) {
    if (PyTuple_GET_ITEM(scalars, i) != reinterpret_cast<PyObject*>(Py_TYPE(arg)))
      continue;
    PyObject* scalar = PyObject_CallOneArg(PyTuple_GET_ITEM(declared, 2), arg);
    if (scalar == nullptr) PyErr_Clear();
    return scalar;
  }
  PyObject* const type = PyObject_GetAttr(arg, attributes->aval);
  if (type == nullptr) PyErr_Clear();
  const bool fits =
      type != nullptr &&
      attribute_equals(type, attributes->dtype, PyTuple_GET_ITEM(declared, 0)) &&
      attribute_equals(type, attributes->shape, PyTuple_GET_ITEM(declared, 1)) &&
      attribute_equals(type, attributes->weak_type, Py_False);
  Py_XDECREF(type);
  return fits ? Py_NewRef(arg) : nullptr;
}

// Returns whether each configuration state of `contexts` has the value that follows it.
bool has_values(nb::handle value_of, const nb::tuple& contexts) {
  for (std::size_t i = 0; i + 1 < contexts.size(); i += 2) {
    PyObject* now =
        PyObject_CallOneArg(value_of.ptr(), PyTuple_GET_ITEM(contexts.ptr(), i));
    if (now == nullptr) {
      PyErr_Clear();
      return false;
    }
    Py_DECREF(now);
    if (now != PyTuple_GET_ITEM(contexts.ptr(), i + 1)) return false;
  }
  return true;
}

// Returns whether any of some lists and sets is not empty.
bool is_any_nonempty(const nb::tuple& unless) {
  for (const nb::handle each : unless) {
    PyObject* const items = each.ptr();
    if ((PyList_CheckExact(items) ? PyList_GET_SIZE(items) : PySet_GET_SIZE(items)) > 0)
      return true;
  }
  return false;
}

// Returns whether an object is an instance of a type, but not of a subclass.
bool has_exact_type(PyObject* object, nb::handle type) {
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

// Returns whether an object's exact type is among some types.
bool has_any_type(const nb::tuple& types, PyObject* object) {
  for (const nb::handle type : types) {
    if (has_exact_type(object, type)) return true;
  }
  return false;
}

// Returns whether an argument's exact type is among some types.
bool has_any_argument_of(const nb::tuple& others, PyObject* args) {
  for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(args); ++j) {
    if (has_any_type(others, PyTuple_GET_ITEM(args, j))) return true;
  }
  return false;
}

// XLA copies smaller NumPy arrays before a call returns.
constexpr std::size_t kCopiedLater = 64 * 1024;

// Returns whether an argument leaf is ready, and not still being copied or computed. An
// execution that has to wait for an argument runs on an XLA thread instead of its
// caller's. There are only as many of these as processors, so callbacks that wait for
// each other there may deadlock.
bool is_ready(const FastCall& fast, PyObject* leaf) {
  if (has_exact_type(leaf, fast.arrays)) {
    PyObject* const ready = PyObject_CallMethodNoArgs(leaf, attributes->is_ready);
    if (ready == nullptr) PyErr_Clear();
    Py_XDECREF(ready);
    return ready == Py_True;
  }
  return !is_array(leaf) || count_bytes(leaf) < kCopiedLater;
}

bool is_scalar(PyObject* value) {
  return PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value);
}

// Updates the facts about the arguments by one of their leaves.
void add_leaf(NumpyArguments& found, const FastCall& fast, PyObject* leaf) {
  if (!is_array(leaf)) return;
  found.need_check |=
      !has_native_byte_order(leaf) ||
      (!is_exact_array(leaf) &&
       PyType_IsSubtype(Py_TYPE(leaf), reinterpret_cast<PyTypeObject*>(
                                           fast.masked_arrays.ptr())) != 0);
  found.is_copied_later |= count_bytes(leaf) >= kCopiedLater;
}

void add_tree(NumpyArguments& found, const FastCall& fast, PyObject* tree);

// Updates the facts about the arguments by the leaves of a container. Python's own
// containers are traversed here, since flattening by JAX takes several times as long.
void add_container(NumpyArguments& found, const FastCall& fast, PyObject* tree) {
  const nb::ft_object_guard others_wait(tree);
  // The flattening of a user's class inside may change the container.
  const auto add = [&](PyObject* item) {
    add_tree(found, fast, nb::borrow(item).ptr());
  };
  if (PyTuple_CheckExact(tree)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tree); ++i)
      add(PyTuple_GET_ITEM(tree, i));
  } else if (PyList_CheckExact(tree)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tree); ++i)
      add(PyList_GET_ITEM(tree, i));
  } else if (PyDict_CheckExact(tree)) {
    PyObject* value = nullptr;
    for (Py_ssize_t next = 0; PyDict_Next(tree, &next, nullptr, &value);) add(value);
  } else if (PyObject* const flat = PyObject_CallOneArg(fast.flatten.ptr(), tree)) {
    PyObject* const leaves = PyTuple_GET_ITEM(flat, 0);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i)
      add_leaf(found, fast, PyList_GET_ITEM(leaves, i));
    Py_DECREF(flat);
  } else {
    PyErr_Clear();
  }
}

// Updates the facts about the arguments by the leaves of a pytree.
void add_tree(NumpyArguments& found, const FastCall& fast, PyObject* tree) {
  if (has_exact_type(tree, fast.arrays) || is_scalar(tree) || tree == Py_None ||
      is_numpy_scalar(tree) || found.need_check)
    return;
  if (is_array(tree)) {
    add_leaf(found, fast, tree);
  } else if (Py_EnterRecursiveCall(" while arguments are read") == 0) {
    add_container(found, fast, tree);
    Py_LeaveRecursiveCall();
  } else {
    PyErr_Clear();
    found.need_check = true;
  }
}

// Returns whether all leaves of a list are ready.
bool has_only_ready(const FastCall& fast, PyObject* leaves) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    if (!is_ready(fast, PyList_GET_ITEM(leaves, i))) return false;
  }
  return true;
}

int traverse_fast(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (PyObject* const held : nb::inst_ptr<FastCall>(self)->objects()) Py_VISIT(held);
  return 0;
}

PyType_Slot fast_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_fast)},
                            {0, nullptr}};

}  // namespace

bool FastCall::can_be_fast(PyObject* args) const {
  return !is_any_nonempty(unless) && !has_any_argument_of(others, args) &&
         has_values(value_of, contexts) && has_values(value_of, defaults);
}

PyObject* FastCall::convert_arguments(PyObject* args, PyObject* kwargs) const {
  PyObject* const types = declared.ptr();
  if (types == Py_None) return Py_NewRef(args);
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (PyTuple_GET_SIZE(types) != count ||
      (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0)) {
    return nullptr;
  }
  PyObject* const all = PyTuple_New(count);
  if (all == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; all != nullptr && i < count; ++i) {
    PyObject* const arg =
        convert_leaf(PyTuple_GET_ITEM(args, i), PyTuple_GET_ITEM(types, i));
    if (arg == nullptr) {
      Py_DECREF(all);
      return nullptr;
    }
    PyTuple_SET_ITEM(all, i, arg);
  }
  return all;
}

std::optional<SplitArguments> FastCall::split(PyObject* args, PyObject* kwargs) const {
  // Four items for each argument: position or name, type, hash and value.
  std::vector<nb::object> key, dynamic;
  const auto add = [&](nb::handle name, nb::handle value) {
    const Py_hash_t hash = PyObject_Hash(value.ptr());
    if (hash == -1) {
      PyErr_Clear();
      return false;
    }
    key.push_back(nb::borrow(name));
    key.push_back(nb::borrow(value.type()));
    key.push_back(nb::steal(PyLong_FromSsize_t(hash)));
    key.push_back(nb::borrow(value));
    return true;
  };
  std::size_t next = 0;  // of static_positions
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    const nb::handle value = PyTuple_GET_ITEM(args, i);
    const bool is_static = next < static_positions.size() &&
                           PyLong_AsSsize_t(static_positions[next].ptr()) == i;
    if (!is_static) {
      dynamic.push_back(nb::borrow(value));
    } else if (!add(static_positions[next++], value)) {
      return std::nullopt;
    }
  }
  nb::object named = nb::borrow(kwargs);
  bool is_copied = false;
  for (std::size_t i = 0; kwargs != nullptr && i < static_names.size(); ++i) {
    const nb::handle name = static_names[i];
    PyObject* const value = PyDict_GetItemWithError(kwargs, name.ptr());
    if (value == nullptr) continue;
    if (!add(name, value)) return std::nullopt;
    if (!is_copied) named = nb::steal(PyDict_Copy(kwargs));
    is_copied = true;
    if (PyDict_DelItem(named.ptr(), name.ptr()) != 0) PyErr_Clear();
  }
  if (is_copied && PyDict_GET_SIZE(named.ptr()) == 0) named = {};
  const auto to_tuple = [](std::vector<nb::object>& items) {
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(items.size()));
    for (std::size_t i = 0; tuple != nullptr && i < items.size(); ++i) {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), items[i].release().ptr());
    }
    return nb::steal(tuple);
  };
  return SplitArguments{to_tuple(key), to_tuple(dynamic), std::move(named)};
}

NumpyArguments FastCall::find_numpy_arguments(PyObject* args, PyObject* kwargs) const {
  NumpyArguments found;
  add_tree(found, *this, args);
  if (kwargs != nullptr) add_tree(found, *this, kwargs);
  return found;
}

bool FastCall::wait_for_result(PyObject* result) const {
  PyObject* const flat = PyObject_CallOneArg(flatten.ptr(), result);
  if (flat == nullptr) return false;
  // All results belong to the same execution.
  PyObject* const leaves = PyTuple_GET_ITEM(flat, 0);
  PyObject* const first =
      PyList_GET_SIZE(leaves) > 0 ? PyList_GET_ITEM(leaves, 0) : Py_None;
  PyObject* done = Py_NewRef(Py_None);
  if (has_exact_type(first, arrays))
    Py_SETREF(done, PyObject_CallMethodNoArgs(first, attributes->block_until_ready));
  Py_DECREF(flat);
  Py_XDECREF(done);
  return done != nullptr;
}

bool FastCall::can_begin_here(PyObject* args, PyObject* kwargs) const {
  if (!begins_here) return true;
  const auto is_leaf = [&](PyObject* value) {
    return is_scalar(value) || has_exact_type(value, arrays) || is_array(value);
  };
  const auto is_tree_ready = [&](PyObject* tree) {
    PyObject* const flat = PyObject_CallOneArg(flatten.ptr(), tree);
    if (flat == nullptr) PyErr_Clear();
    const bool ready =
        flat != nullptr && has_only_ready(*this, PyTuple_GET_ITEM(flat, 0));
    Py_XDECREF(flat);
    return ready;
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* const arg = PyTuple_GET_ITEM(args, i);
    if (!(is_leaf(arg) ? is_ready(*this, arg) : is_tree_ready(arg))) return false;
  }
  return kwargs == nullptr || is_tree_ready(kwargs);
}

bool FastCall::needs_slow_path(PyObject* result) const {
  return is_any_nonempty(unless) || has_any_type(special, result);
}

void define_fast_call(nb::module_& m) {
  attributes = new Attributes;
  nb::class_<FastCall>(m, "FastCall", nb::type_slots(fast_slots),
                       "The data for fast calls of a compiled function.")
      .def(nb::init<nb::object, nb::object, nb::object, nb::tuple, nb::tuple, nb::tuple,
                    nb::tuple, nb::tuple, nb::tuple, nb::object, nb::tuple, nb::tuple,
                    Py_ssize_t, bool, bool, nb::object, nb::object, nb::object,
                    nb::object, nb::object>(),
           nb::kw_only(), "jit"_a, "handle"_a.none(), "value_of"_a, "contexts"_a,
           "defaults"_a, "settings"_a, "unless"_a, "others"_a, "special"_a,
           "declared"_a.none(), "static_positions"_a, "static_names"_a, "most_runs"_a,
           "waits"_a, "begins_here"_a, "arrays"_a, "masked_arrays"_a, "flatten"_a,
           "make_ready"_a, "table"_a.none())
      .def(nb::self == nb::self);
}

}  // namespace bellhop
