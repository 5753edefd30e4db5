// bindings/compiled_call.cc: calling a compiled function, as far as that needs no
// Python.
//
// Most calls are one of JAX's C++ function with the handle of the table before the
// arguments. All that may ask for more is looked at here, before and after, and left to
// the Python method `_specially`.
#include "bindings/compiled_call.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>

#include "arrays/small_array.h"
#include "ffi/runs.h"
#include "interpreter/failures.h"

namespace bellhop {
namespace {

struct CompiledCall {
  PyObject_HEAD
      // All of these are null in one that was not given them: then nothing is fast.
      PyObject* jit;   // JAX's function
  PyObject* first;     // what it takes before the arguments
  PyObject* contexts;  // tuple of objects, each followed by what its `value` has to be
  PyObject* unless;    // tuple of sets and lists, of which none may hold anything
  PyObject* others;    // tuple of types of arguments that ask for more
  PyObject* effects;   // the type of results that ask for more
  PyObject* runs;      // list with an element for each run under way
  PyObject* declared;  // None, or a tuple of what arguments have to be: dtype, shape,
                       // type of scalars, and Python's types that become such a scalar
  Py_ssize_t most_runs;
  char is_fast;
  char waits;  // where the run may not be over when JAX returns
};

// Guarded by the GIL. One that calls again stands there again.
std::vector<unsigned long> calling;

class Calling {
 public:
  Calling() : thread_(PyThread_get_thread_ident()) { calling.push_back(thread_); }
  ~Calling() {
    // That of another thread may have come behind it.
    calling.erase(std::ranges::find(calling, thread_));
  }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  unsigned long thread_;
};

CompiledCall& of(PyObject* self) { return *reinterpret_cast<CompiledCall*>(self); }

PyMemberDef members[] = {
    {"_jit", T_OBJECT, offsetof(CompiledCall, jit), 0, nullptr},
    {"_first", T_OBJECT, offsetof(CompiledCall, first), 0, nullptr},
    {"_contexts", T_OBJECT, offsetof(CompiledCall, contexts), 0, nullptr},
    {"_unless", T_OBJECT, offsetof(CompiledCall, unless), 0, nullptr},
    {"_others", T_OBJECT, offsetof(CompiledCall, others), 0, nullptr},
    {"_effects", T_OBJECT, offsetof(CompiledCall, effects), 0, nullptr},
    {"_runs", T_OBJECT, offsetof(CompiledCall, runs), 0, nullptr},
    {"_declared_leaves", T_OBJECT, offsetof(CompiledCall, declared), 0, nullptr},
    {"_most_runs", T_PYSSIZET, offsetof(CompiledCall, most_runs), 0, nullptr},
    {"_is_fast", T_BOOL, offsetof(CompiledCall, is_fast), 0, nullptr},
    {"_waits", T_BOOL, offsetof(CompiledCall, waits), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

// Calls act with each object that a call holds, until it returns another than zero.
template <typename Act>
int for_each_object(PyObject* self, Act&& act) {
  for (const PyMemberDef* member = members; member->name != nullptr; ++member) {
    if (member->type != T_OBJECT) continue;
    char* const place = reinterpret_cast<char*>(self) + member->offset;
    const int result = act(*reinterpret_cast<PyObject**>(place));
    if (result != 0) return result;
  }
  return 0;
}

// Whether an attribute of an object is, or equals, another object.
bool has(PyObject* object, PyObject* attribute, PyObject* expected) {
  PyObject* const value = PyObject_GetAttr(object, attribute);
  const int equal =
      value == nullptr ? -1 : PyObject_RichCompareBool(value, expected, Py_EQ);
  Py_XDECREF(value);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// An argument in the type that is declared for it (new reference), or null where that
// is left to Python, without an error set.
PyObject* as_declared(PyObject* arg, PyObject* declared) {
  static PyObject* const aval = PyUnicode_InternFromString("aval");
  static PyObject* const dtype = PyUnicode_InternFromString("dtype");
  static PyObject* const shape = PyUnicode_InternFromString("shape");
  static PyObject* const weak_type = PyUnicode_InternFromString("weak_type");
  PyObject* const scalars = PyTuple_GET_ITEM(declared, 3);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(scalars); ++i) {
    if (PyTuple_GET_ITEM(scalars, i) != reinterpret_cast<PyObject*>(Py_TYPE(arg)))
      continue;
    PyObject* scalar = PyObject_CallOneArg(PyTuple_GET_ITEM(declared, 2), arg);
    if (scalar == nullptr) PyErr_Clear();
    return scalar;
  }
  PyObject* const type = PyObject_GetAttr(arg, aval);
  if (type == nullptr) PyErr_Clear();
  const bool fits =
      type != nullptr && has(type, dtype, PyTuple_GET_ITEM(declared, 0)) &&
      has(type, shape, PyTuple_GET_ITEM(declared, 1)) && has(type, weak_type, Py_False);
  Py_XDECREF(type);
  return fits ? Py_NewRef(arg) : nullptr;
}

// Arguments in their declared types, or null as above.
PyObject* as_declared(const CompiledCall& call, PyObject* args, PyObject* kwargs) {
  if (call.declared == Py_None) return Py_NewRef(args);
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (PyTuple_GET_SIZE(call.declared) != count ||
      (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0)) {
    return nullptr;
  }
  PyObject* const all = PyTuple_New(count);
  if (all == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; all != nullptr && i < count; ++i) {
    PyObject* const arg =
        as_declared(PyTuple_GET_ITEM(args, i), PyTuple_GET_ITEM(call.declared, i));
    if (arg == nullptr) {
      Py_DECREF(all);
      return nullptr;
    }
    PyTuple_SET_ITEM(all, i, arg);
  }
  return all;
}

bool is_at_top(const CompiledCall& call) {
  static PyObject* const value = PyUnicode_InternFromString("value");
  for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(call.contexts); i += 2) {
    PyObject* now = PyObject_GetAttr(PyTuple_GET_ITEM(call.contexts, i), value);
    if (now == nullptr) {
      PyErr_Clear();
      return false;
    }
    Py_DECREF(now);
    if (now != PyTuple_GET_ITEM(call.contexts, i + 1)) return false;
  }
  return true;
}

bool holds_any(PyObject* unless) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(unless); ++i) {
    PyObject* items = PyTuple_GET_ITEM(unless, i);
    if ((PyList_CheckExact(items) ? PyList_GET_SIZE(items) : PySet_GET_SIZE(items)) > 0)
      return true;
  }
  return false;
}

bool has_other(PyObject* others, PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(others); ++i) {
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(args); ++j) {
      if (Py_IS_TYPE(PyTuple_GET_ITEM(args, j),
                     reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(others, i))))
        return true;
    }
  }
  return false;
}

bool may_be_fast(const CompiledCall& call, PyObject* args) {
  return call.is_fast && PyList_GET_SIZE(call.runs) < call.most_runs &&
         !holds_any(call.unless) && !has_other(call.others, args) && is_at_top(call);
}

PyObject* specially(PyObject* self, PyObject* begun, PyObject* failed, PyObject* args,
                    PyObject* kwargs) {
  static PyObject* const name = PyUnicode_InternFromString("_specially");
  PyObject* named = kwargs == nullptr ? PyDict_New() : Py_NewRef(kwargs);
  if (named == nullptr) return nullptr;
  PyObject* const arguments[] = {self, begun, failed, args, named};
  PyObject* result = PyObject_VectorcallMethod(name, arguments, 5, nullptr);
  Py_DECREF(named);
  return result;
}

PyObject* call_jit(PyObject* jit, PyObject* first, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  SmallArray<PyObject*, 16> with_first(count + 2);
  with_first[1] = first;
  for (Py_ssize_t i = 0; i < count; ++i) with_first[i + 2] = PyTuple_GET_ITEM(args, i);
  return PyObject_VectorcallDict(jit, with_first.data() + 1,
                                 (count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwargs);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  CompiledCall& call = of(self);
  PyObject* const taken =
      may_be_fast(call, args) ? as_declared(call, args, kwargs) : nullptr;
  if (taken == nullptr) return specially(self, Py_None, Py_None, args, kwargs);
  // Python may set others while JAX runs.
  PyObject* const jit = Py_NewRef(call.jit);
  PyObject* const first = Py_NewRef(call.first);
  PyObject* const runs = Py_NewRef(call.runs);
  PyObject* result = nullptr;
  if (PyList_Append(runs, Py_None) == 0) {
    const RunsHere here;
    {
      const Calling in_call;
      result = call_jit(jit, first, taken, kwargs);
    }
    PyObject* const failed = result == nullptr ? take_exception() : nullptr;
    const Py_ssize_t last = PyList_GET_SIZE(runs) - 1;
    PyList_SetSlice(runs, last, last + 1, nullptr);
    if (failed != nullptr) {
      result = specially(self, Py_None, failed, args, kwargs);
      Py_DECREF(failed);
    } else if (!call.is_fast || (call.waits && !here.any()) || holds_any(call.unless) ||
               Py_IS_TYPE(result, reinterpret_cast<PyTypeObject*>(call.effects))) {
      PyObject* const begun = result;
      result = specially(self, begun, Py_None, args, kwargs);
      Py_DECREF(begun);
    }
  }
  Py_DECREF(runs);
  Py_DECREF(first);
  Py_DECREF(jit);
  Py_DECREF(taken);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return for_each_object(self, [=](PyObject* object) {
    Py_VISIT(object);
    return 0;
  });
}

int clear(PyObject* self) {
  of(self).is_fast = 0;
  return for_each_object(self, [](PyObject*& object) {
    Py_CLEAR(object);
    return 0;
  });
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A compiled function, as far as it is called.")},
    {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_members, members},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {0, nullptr}};

PyType_Spec spec = {"bellhop_runtime._runtime.CompiledCall", sizeof(CompiledCall), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                    slots};

}  // namespace

const std::vector<unsigned long>& threads_in_calls() { return calling; }

PyObject* compiled_call_type() { return PyType_FromSpec(&spec); }

}  // namespace bellhop
