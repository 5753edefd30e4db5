// bindings/compiled_call.cc: the call of a compiled function (QJIT.__call__) in C++.
//
// Most calls f(x, y) are no more than jit(table, x, y), where jit is JAX's C++ function
// and table is the handle of the program's table. So this is what happens here, unless
// a call may need more: a function that is not compiled yet, arguments of other types,
// a call within a transformation, effects to wait for, an exception. Then Python's
// method f._specially(begun, failed, args, kwargs) does it: `begun` is the result of
// jit, or None before jit is called, and `failed` is the exception that jit raised, or
// None.
#include "bindings/compiled_call.h"

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <structmember.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "arrays/small_array.h"
#include "ffi/runs.h"
#include "interpreter/ended_threads.h"
#include "interpreter/failures.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace bellhop {
namespace {

// What a call needs, as Python says it. Nothing in it changes, so that other threads
// see all of it or none.
struct FastCall {
  nb::object jit;        // JAX's function
  nb::object handle;     // its first argument, that of the table
  nb::tuple contexts;    // objects, each followed by the `value` that it must have
  nb::tuple defaults;    // the same, of what may be another one from call to call
  nb::tuple settings;    // objects, each followed by its `value` during the call
  nb::tuple unless;      // sets and lists, all of which must be empty
  nb::tuple others;      // types of arguments that need _specially
  nb::tuple special;     // types of results that need _specially
  nb::object declared;   // None, or a tuple for each argument: dtype, shape, type of
                         // scalars, and a tuple of the Python types that become one
  Py_ssize_t most_runs;  // with so many under way, of all functions, _specially
  bool waits;            // whether the run may be under way still when JAX returns
  // How a run is made to begin at once, see is_ready:
  nb::object arrays;        // the type of JAX's arrays
  nb::object numpy_arrays;  // that of NumPy's
  nb::object flatten;       // function: a tuple that begins with the leaves of a pytree
  nb::object make_ready;    // function of args and kwargs: both, with arrays that are

  auto objects() const {
    return std::array{jit.ptr(),       handle.ptr(), contexts.ptr(),     defaults.ptr(),
                      settings.ptr(),  unless.ptr(), others.ptr(),       special.ptr(),
                      declared.ptr(),  arrays.ptr(), numpy_arrays.ptr(), flatten.ptr(),
                      make_ready.ptr()};
  }
  bool operator==(const FastCall& other) const {
    return objects() == other.objects() && most_runs == other.most_runs &&
           waits == other.waits;
  }
};

int traverse_fast(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (PyObject* const held : nb::inst_ptr<FastCall>(self)->objects()) Py_VISIT(held);
  return 0;
}

PyType_Slot fast_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_fast)},
                            {0, nullptr}};

struct CompiledCall {
  PyObject_HEAD
      // A FastCall; None if every call needs _specially. Python replaces it as a whole.
      PyObject* fast;
};

std::atomic<Py_ssize_t> runs{0};

// One more of them, for as long as it lasts.
class Run {
 public:
  Run() : others_(runs.fetch_add(1)) {}
  ~Run() { runs.fetch_sub(1); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Py_ssize_t others() const { return others_; }

 private:
  Py_ssize_t others_;
};

struct Caller;

// Those of all threads. Who holds the mutex takes no other lock. Replaced in the child
// of a fork; never destroyed, as threads may outlive everything.
struct Callers {
  std::mutex mutex;
  std::vector<const Caller*> all;
};
Callers* callers = new Callers;

// How many calls this thread is in, for others to ask.
struct Caller {
  Caller() : thread(PyThread_get_thread_ident()) {
    const std::lock_guard lock(callers->mutex);
    callers->all.push_back(this);
  }
  ~Caller() {
    const std::lock_guard lock(callers->mutex);
    std::erase(callers->all, this);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  const unsigned long thread;
  std::atomic<int> calls{0};
};

class Calling {
 public:
  Calling() : calls_(of_thread().calls) { add(1); }
  ~Calling() { add(-1); }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

  static Caller& of_thread() {
    thread_local Caller caller;
    return caller;
  }

 private:
  // Nobody else writes it.
  void add(int number) {
    calls_.store(calls_.load(std::memory_order_relaxed) + number,
                 std::memory_order_relaxed);
  }

  std::atomic<int>& calls_;
};

CompiledCall& of(PyObject* self) { return *reinterpret_cast<CompiledCall*>(self); }

PyMemberDef members[] = {{"_fast", T_OBJECT, offsetof(CompiledCall, fast), 0, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

// A new reference, as Python's own descriptor gives; null where there is none.
PyObject* fast_of(PyObject* self) {
  const nb::ft_object_guard others_wait(self);
  return Py_XNewRef(of(self).fast);
}

// Made while the module loads: a thread that waits for another one to make them would
// keep it from running Python.
struct Names {
  PyObject* aval = PyUnicode_InternFromString("aval");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* weak_type = PyUnicode_InternFromString("weak_type");
  PyObject* value = PyUnicode_InternFromString("value");
  PyObject* swap_local = PyUnicode_InternFromString("swap_local");
  PyObject* set_local = PyUnicode_InternFromString("set_local");
  PyObject* nbytes = PyUnicode_InternFromString("nbytes");
  PyObject* is_ready = PyUnicode_InternFromString("is_ready");
  PyObject* specially = PyUnicode_InternFromString("_specially");
};
const Names* names = nullptr;

// Whether an attribute of an object is, or equals, another object.
bool has(PyObject* object, PyObject* attribute, PyObject* expected) {
  PyObject* const value = PyObject_GetAttr(object, attribute);
  const int equal =
      value == nullptr ? -1 : PyObject_RichCompareBool(value, expected, Py_EQ);
  Py_XDECREF(value);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// Returns an argument in the type that is declared for it (new reference); or null,
// with no error set, if Python must convert it.
PyObject* as_declared_leaf(PyObject* arg, PyObject* declared) {
  PyObject* const scalars = PyTuple_GET_ITEM(declared, 3);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(scalars); ++i) {
    if (PyTuple_GET_ITEM(scalars, i) != reinterpret_cast<PyObject*>(Py_TYPE(arg)))
      continue;
    PyObject* scalar = PyObject_CallOneArg(PyTuple_GET_ITEM(declared, 2), arg);
    if (scalar == nullptr) PyErr_Clear();
    return scalar;
  }
  PyObject* const type = PyObject_GetAttr(arg, names->aval);
  if (type == nullptr) PyErr_Clear();
  const bool fits = type != nullptr &&
                    has(type, names->dtype, PyTuple_GET_ITEM(declared, 0)) &&
                    has(type, names->shape, PyTuple_GET_ITEM(declared, 1)) &&
                    has(type, names->weak_type, Py_False);
  Py_XDECREF(type);
  return fits ? Py_NewRef(arg) : nullptr;
}

// Returns the tuple of arguments in their declared types; or null, as above.
PyObject* as_declared(PyObject* declared, PyObject* args, PyObject* kwargs) {
  if (declared == Py_None) return Py_NewRef(args);
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (PyTuple_GET_SIZE(declared) != count ||
      (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0)) {
    return nullptr;
  }
  PyObject* const all = PyTuple_New(count);
  if (all == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; all != nullptr && i < count; ++i) {
    PyObject* const arg =
        as_declared_leaf(PyTuple_GET_ITEM(args, i), PyTuple_GET_ITEM(declared, i));
    if (arg == nullptr) {
      Py_DECREF(all);
      return nullptr;
    }
    PyTuple_SET_ITEM(all, i, arg);
  }
  return all;
}

// Whether JAX's state is what it must be.
bool is_in_state(const nb::tuple& contexts) {
  for (std::size_t i = 0; i + 1 < contexts.size(); i += 2) {
    PyObject* now = PyObject_GetAttr(PyTuple_GET_ITEM(contexts.ptr(), i), names->value);
    if (now == nullptr) {
      PyErr_Clear();
      return false;
    }
    Py_DECREF(now);
    if (now != PyTuple_GET_ITEM(contexts.ptr(), i + 1)) return false;
  }
  return true;
}

// JAX's state in this thread is another one for as long as it lasts. No error may be
// set where it begins and ends.
class Settings {
 public:
  explicit Settings(const nb::tuple& pairs)
      : pairs_(pairs.ptr()), former_(pairs.size()) {
    for (; set_ < PyTuple_GET_SIZE(pairs_); set_ += 2) {
      former_[set_] =
          PyObject_CallMethodOneArg(PyTuple_GET_ITEM(pairs_, set_), names->swap_local,
                                    PyTuple_GET_ITEM(pairs_, set_ + 1));
      if (former_[set_] == nullptr) {
        PyErr_Clear();
        return;
      }
    }
  }
  ~Settings() {
    for (Py_ssize_t i = set_ - 2; i >= 0; i -= 2) {
      PyObject* const state = PyTuple_GET_ITEM(pairs_, i);
      PyObject* const done =
          PyObject_CallMethodOneArg(state, names->set_local, former_[i]);
      if (done == nullptr) PyErr_WriteUnraisable(state);
      Py_XDECREF(done);
      Py_DECREF(former_[i]);
    }
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  bool all_hold() const { return set_ == PyTuple_GET_SIZE(pairs_); }

 private:
  PyObject* pairs_;
  SmallArray<PyObject*, 4> former_;
  Py_ssize_t set_ = 0;
};

bool holds_any(const nb::tuple& unless) {
  for (const nb::handle each : unless) {
    PyObject* const items = each.ptr();
    if ((PyList_CheckExact(items) ? PyList_GET_SIZE(items) : PySet_GET_SIZE(items)) > 0)
      return true;
  }
  return false;
}

bool is_a(PyObject* object, nb::handle type) {
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

// Whether an object's type is one of some.
bool is_one_of(const nb::tuple& types, PyObject* object) {
  for (const nb::handle type : types) {
    if (is_a(object, type)) return true;
  }
  return false;
}

bool has_other(const nb::tuple& others, PyObject* args) {
  for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(args); ++j) {
    if (is_one_of(others, PyTuple_GET_ITEM(args, j))) return true;
  }
  return false;
}

// Whether nothing but the number of runs asks for more.
bool may_be_fast(const FastCall& fast, PyObject* args) {
  return !holds_any(fast.unless) && !has_other(fast.others, args) &&
         is_in_state(fast.contexts) && is_in_state(fast.defaults);
}

// XLA copies smaller arrays of NumPy's before a call returns.
constexpr Py_ssize_t kCopiedLater = 64 * 1024;

// Whether a leaf is there, or on its way: it is copied, or computed. A run that has to
// wait for one runs on a thread of XLA's, of which there are as many as processors, and
// not on its caller's. Callbacks that wait for one another there may wait for ever.
bool is_ready(const FastCall& fast, PyObject* leaf) {
  if (is_a(leaf, fast.arrays)) {
    PyObject* const ready = PyObject_CallMethodNoArgs(leaf, names->is_ready);
    if (ready == nullptr) PyErr_Clear();
    Py_XDECREF(ready);
    return ready == Py_True;
  }
  if (!is_a(leaf, fast.numpy_arrays)) return true;
  PyObject* const bytes = PyObject_GetAttr(leaf, names->nbytes);
  const Py_ssize_t count = bytes == nullptr ? kCopiedLater : PyLong_AsSsize_t(bytes);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  Py_XDECREF(bytes);
  return count < kCopiedLater;
}

bool is_scalar(PyObject* value) {
  return PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value);
}

bool are_ready(const FastCall& fast, PyObject* leaves) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    if (!is_ready(fast, PyList_GET_ITEM(leaves, i))) return false;
  }
  return true;
}

// Whether a run may begin at once. False where that cannot be told.
bool may_begin(const FastCall& fast, PyObject* args, PyObject* kwargs) {
  const auto is_leaf = [&](PyObject* value) {
    return is_scalar(value) || is_a(value, fast.arrays) ||
           is_a(value, fast.numpy_arrays);
  };
  const auto is_tree_ready = [&](PyObject* tree) {
    PyObject* const flat = PyObject_CallOneArg(fast.flatten.ptr(), tree);
    if (flat == nullptr) PyErr_Clear();
    const bool ready = flat != nullptr && are_ready(fast, PyTuple_GET_ITEM(flat, 0));
    Py_XDECREF(flat);
    return ready;
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* const arg = PyTuple_GET_ITEM(args, i);
    if (!(is_leaf(arg) ? is_ready(fast, arg) : is_tree_ready(arg))) return false;
  }
  return kwargs == nullptr || is_tree_ready(kwargs);
}

PyObject* specially(PyObject* self, PyObject* begun, PyObject* failed, PyObject* args,
                    PyObject* kwargs) {
  PyObject* named = kwargs == nullptr ? PyDict_New() : Py_NewRef(kwargs);
  if (named == nullptr) return nullptr;
  PyObject* const arguments[] = {self, begun, failed, args, named};
  PyObject* result = sleeps_if_ended([&] {
    return PyObject_VectorcallMethod(names->specially, arguments, 5, nullptr);
  });
  Py_DECREF(named);
  return result;
}

PyObject* call_jit(PyObject* jit, PyObject* first, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  SmallArray<PyObject*, 16> with_first(count + 2);
  with_first[1] = first;
  for (Py_ssize_t i = 0; i < count; ++i) with_first[i + 2] = PyTuple_GET_ITEM(args, i);
  return sleeps_if_ended([&] {
    return PyObject_VectorcallDict(jit, with_first.data() + 1,
                                   (count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   kwargs);
  });
}

// What a fast call came to: a result, or an exception. Neither, without an error set,
// where the call is not fast after all.
struct Outcome {
  PyObject* result = nullptr;
  PyObject* failed = nullptr;
  bool asks_for_more = false;
};

Outcome call_fast(PyObject* self, PyObject* object, PyObject* args, PyObject* kwargs) {
  const FastCall& fast = *nb::inst_ptr<FastCall>(object);
  Outcome outcome;
  if (!may_be_fast(fast, args)) return outcome;
  const Run run;
  if (run.others() >= fast.most_runs) return outcome;
  PyObject* const taken = as_declared(fast.declared.ptr(), args, kwargs);
  if (taken == nullptr) return outcome;
  const bool begins = !fast.waits || may_begin(fast, taken, kwargs);
  PyObject* const made = begins ? nullptr
                                : PyObject_CallFunctionObjArgs(
                                      fast.make_ready.ptr(), taken,
                                      kwargs == nullptr ? Py_None : kwargs, nullptr);
  const RunsHere here;
  if (begins || made != nullptr) {
    const Calling in_call;
    const Settings settings(fast.settings);
    if (settings.all_hold()) {
      PyObject* const named =
          begins || kwargs == nullptr ? kwargs : PyTuple_GET_ITEM(made, 1);
      outcome.result = call_jit(fast.jit.ptr(), fast.handle.ptr(),
                                begins ? taken : PyTuple_GET_ITEM(made, 0), named);
      if (outcome.result == nullptr) outcome.failed = take_exception();
    }
  } else {
    outcome.failed = take_exception();
  }
  Py_XDECREF(made);
  Py_DECREF(taken);
  if (outcome.result == nullptr) return outcome;
  // Where the call has compiled a program, it may wait, or print.
  PyObject* const now = fast_of(self);
  outcome.asks_for_more = now != object || (fast.waits && !here.any()) ||
                          holds_any(fast.unless) ||
                          is_one_of(fast.special, outcome.result);
  Py_XDECREF(now);
  return outcome;
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const FailuresOfCall failures;
  PyObject* const fast = fast_of(self);
  Outcome outcome;
  if (fast != nullptr && fast != Py_None) outcome = call_fast(self, fast, args, kwargs);
  Py_XDECREF(fast);
  const auto& [result, failed, asks_for_more] = outcome;
  if (result != nullptr && !asks_for_more) return result;
  PyObject* const after = specially(self, result == nullptr ? Py_None : result,
                                    failed == nullptr ? Py_None : failed, args, kwargs);
  Py_XDECREF(result);
  Py_XDECREF(failed);
  return after;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(of(self).fast);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(of(self).fast);
  return 0;
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

void begin_run() { runs.fetch_add(1); }

void end_run() { runs.fetch_sub(1); }

Py_ssize_t runs_under_way() { return runs.load(); }

std::vector<unsigned long> threads_in_calls() {
  std::vector<unsigned long> threads;
  const std::lock_guard lock(callers->mutex);
  for (const Caller* caller : callers->all) {
    if (caller->calls.load(std::memory_order_relaxed) > 0) {
      threads.push_back(caller->thread);
    }
  }
  return threads;
}

void forget_callers() {
  // The old one is left as it is: a thread that is no more may hold its mutex.
  callers = new Callers;
  callers->all.push_back(&Calling::of_thread());
}

void define_compiled_call(nb::module_& m) {
  names = new Names;
  nb::class_<FastCall>(m, "FastCall", nb::type_slots(fast_slots),
                       "What a call of a compiled function needs.")
      .def(nb::init<nb::object, nb::object, nb::tuple, nb::tuple, nb::tuple, nb::tuple,
                    nb::tuple, nb::tuple, nb::object, Py_ssize_t, bool, nb::object,
                    nb::object, nb::object, nb::object>(),
           nb::kw_only(), "jit"_a, "handle"_a, "contexts"_a, "defaults"_a, "settings"_a,
           "unless"_a, "others"_a, "special"_a, "declared"_a.none(), "most_runs"_a,
           "waits"_a, "arrays"_a, "numpy_arrays"_a, "flatten"_a, "make_ready"_a)
      .def(nb::self == nb::self);
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("CompiledCall") = type;
}

}  // namespace bellhop
