// bindings/compiled_call.cc: the call of a compiled function (QJIT.__call__) in C++.
//
// Most calls f(x, y) only have to call jit(table, x, y), where jit is JAX's C++
// function and table is the handle of the program's callback table, or jit(x, y) if no
// program calls the runtime. This file does that. A call may need more: the function is
// not compiled yet, arguments have other types, the call is inside a transformation,
// effects must be awaited, or an exception was raised. Then Python's method
// f._call_slow_path(begun, failed, args, kwargs) does it: `begun` is the result of jit,
// or None if jit was not called, and `failed` is the exception that jit raised, or
// None.
#include "bindings/compiled_call.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <atomic>
#include <cstddef>
#include <optional>

#include "arrays/small_array.h"
#include "bindings/call_with_arguments.h"
#include "bindings/fast_call.h"
#include "circuit/session.h"
#include "ffi/run_cleanup.h"
#include "interpreter/daemon_threads.h"
#include "interpreter/failures.h"
#include "profile/active_calls.h"

namespace bellhop {
namespace {

struct CompiledCall {
  PyObject_HEAD
      // A FastCall; None if every call needs the slow path. Python replaces it as a
      // whole.
      PyObject* fast;
};

std::atomic<Py_ssize_t> runs{0};

// Counts a run as active during its lifetime.
class RunCounter {
 public:
  RunCounter() : others_(runs.fetch_add(1)) {}
  ~RunCounter() { runs.fetch_sub(1); }
  RunCounter(const RunCounter&) = delete;
  RunCounter& operator=(const RunCounter&) = delete;

  // Returns how many other runs were active when this one began.
  Py_ssize_t others() const { return others_; }

 private:
  Py_ssize_t others_;
};

CompiledCall& as_compiled_call(PyObject* self) {
  return *reinterpret_cast<CompiledCall*>(self);
}

PyMemberDef members[] = {{"_fast", T_OBJECT, offsetof(CompiledCall, fast), 0, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

// Returns the FastCall or None (new reference), or null if the attribute is not set.
PyObject* get_fast_call(PyObject* self) {
  const nb::ft_object_guard others_wait(self);
  return Py_XNewRef(as_compiled_call(self).fast);
}

// Interned method names. They are created while the module loads. Static variables of a
// function could deadlock: a thread that waits for their initialisation holds the GIL,
// which the initialising thread may need.
struct Methods {
  PyObject* swap_local = PyUnicode_InternFromString("swap_local");
  PyObject* set_local = PyUnicode_InternFromString("set_local");
  PyObject* slow_path = PyUnicode_InternFromString("_call_slow_path");
};
const Methods* methods = nullptr;

// Sets JAX's thread-local configuration states during its lifetime. `pairs` holds each
// state followed by its value. No Python error may be set at construction or
// destruction.
class ScopedSettings {
 public:
  explicit ScopedSettings(const nb::tuple& pairs)
      : pairs_(pairs.ptr()), former_(pairs.size()) {
    for (; set_ < PyTuple_GET_SIZE(pairs_); set_ += 2) {
      former_[set_] =
          PyObject_CallMethodOneArg(PyTuple_GET_ITEM(pairs_, set_), methods->swap_local,
                                    PyTuple_GET_ITEM(pairs_, set_ + 1));
      if (former_[set_] == nullptr) {
        PyErr_Clear();
        return;
      }
    }
  }
  ~ScopedSettings() {
    for (Py_ssize_t i = set_ - 2; i >= 0; i -= 2) {
      PyObject* const state = PyTuple_GET_ITEM(pairs_, i);
      PyObject* const done =
          PyObject_CallMethodOneArg(state, methods->set_local, former_[i]);
      if (done == nullptr) PyErr_WriteUnraisable(state);
      Py_XDECREF(done);
      Py_DECREF(former_[i]);
    }
  }
  ScopedSettings(const ScopedSettings&) = delete;
  ScopedSettings& operator=(const ScopedSettings&) = delete;

  // Returns whether all states were set.
  bool is_applied() const { return set_ == PyTuple_GET_SIZE(pairs_); }

 private:
  PyObject* pairs_;
  SmallArray<PyObject*, 4> former_;
  Py_ssize_t set_ = 0;
};

// Calls Python's method _call_slow_path; returns its result (new reference) or null
// with an error set.
PyObject* call_slow_path(PyObject* self, PyObject* begun, PyObject* failed,
                         PyObject* args, PyObject* kwargs) {
  PyObject* named = kwargs == nullptr ? PyDict_New() : Py_NewRef(kwargs);
  if (named == nullptr) return nullptr;
  PyObject* const arguments[] = {self, begun, failed, args, named};
  PyObject* result = call_or_sleep([&] {
    return PyObject_VectorcallMethod(methods->slow_path, arguments, 5, nullptr);
  });
  Py_DECREF(named);
  return result;
}

// Calls JAX's function with `key`, unless null, and `handle`, unless None, before the
// arguments; returns its result (new reference) or null with an error set.
PyObject* call_jit(PyObject* jit, PyObject* key, PyObject* handle, PyObject* args,
                   PyObject* kwargs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  SmallArray<PyObject*, 16> all(count + 3);
  Py_ssize_t size = 1;  // The first place is free for the callee.
  if (key != nullptr) all[size++] = key;
  if (handle != Py_None) all[size++] = handle;
  for (Py_ssize_t i = 0; i < count; ++i) all[size++] = PyTuple_GET_ITEM(args, i);
  return call_or_sleep([&] {
    return PyObject_VectorcallDict(jit, all.data() + 1,
                                   (size - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwargs);
  });
}

// The outcome of a fast call: a result, an exception, or neither (without an error set)
// if the call needs the slow path.
struct Outcome {
  PyObject* result = nullptr;
  PyObject* failed = nullptr;
  bool needs_slow_path = false;
};

// Makes the call object of a program that reads its arguments, in `call`, and returns
// its handle (new reference); null with an error set. The call object must outlive the
// execution.
PyObject* begin_call(std::optional<CallWithArguments>& call, const FastCall& fast,
                     PyObject* args, PyObject* kwargs) {
  try {
    nb::object given = nb::borrow(args);
    if (kwargs != nullptr) given = nb::make_tuple(given, nb::handle(kwargs));
    const nb::object flat = fast.flatten(given);
    return call.emplace(fast.table, nb::borrow<nb::list>(flat[0])).handle();
  } catch (nb::python_error& error) {
    error.restore();
    return nullptr;
  }
}

// Calls a compiled function without the slow path, if `object`, its FastCall, allows
// that.
Outcome call_fast(PyObject* self, PyObject* object, PyObject* args, PyObject* kwargs,
                  std::optional<CallWithArguments>& call) {
  const FastCall& fast = *nb::inst_ptr<FastCall>(object);
  Outcome outcome;
  if (!fast.can_be_fast(args)) return outcome;
  const RunCounter run;
  if (run.others() >= fast.most_runs) return outcome;
  std::optional<SplitArguments> split;
  if (fast.has_static()) {
    split = fast.split(args, kwargs);
    if (!split) return outcome;
    args = split->args.ptr();
    kwargs = split->kwargs.ptr();
  }
  const NumpyArguments numpy = fast.find_numpy_arguments(args, kwargs);
  if (numpy.need_check) return outcome;
  PyObject* const key = split ? split->key.ptr() : nullptr;
  PyObject* const taken = fast.convert_arguments(args, kwargs);
  if (taken == nullptr) return outcome;
  const bool begins = fast.can_begin_here(taken, kwargs);
  PyObject* const made = begins ? nullptr
                                : PyObject_CallFunctionObjArgs(
                                      fast.make_ready.ptr(), taken,
                                      kwargs == nullptr ? Py_None : kwargs, nullptr);
  const HandlerDetector handlers;
  if (begins || made != nullptr) {
    const ScopedSettings settings(fast.settings);
    if (settings.is_applied()) {
      PyObject* const named =
          begins || kwargs == nullptr ? kwargs : PyTuple_GET_ITEM(made, 1);
      PyObject* const ready = begins ? taken : PyTuple_GET_ITEM(made, 0);
      PyObject* const first = fast.table.is_none()
                                  ? Py_NewRef(fast.handle.ptr())
                                  : begin_call(call, fast, ready, named);
      if (first != nullptr)
        outcome.result = call_jit(fast.jit.ptr(), key, first, ready, named);
      if (outcome.result == nullptr) outcome.failed = take_exception();
      Py_XDECREF(first);
    }
  } else {
    outcome.failed = take_exception();
  }
  Py_XDECREF(made);
  Py_DECREF(taken);
  if (outcome.result != nullptr && numpy.is_copied_later &&
      !fast.wait_for_result(outcome.result)) {
    Py_CLEAR(outcome.result);
    outcome.failed = take_exception();
  }
  if (outcome.result == nullptr) return outcome;
  // JAX may have compiled the function again during the call, and the new program may
  // need to be awaited, or may print.
  PyObject* const now = get_fast_call(self);
  outcome.needs_slow_path = now != object || (fast.waits && !handlers.has_run()) ||
                            fast.needs_slow_path(outcome.result);
  Py_XDECREF(now);
  return outcome;
}

// Implements CompiledCall.__call__.
PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const CallFailures failures;
  const ActiveCall active(self);
  const CallSessions sessions;
  std::optional<CallWithArguments> in_call;
  PyObject* const fast = get_fast_call(self);
  Outcome outcome;
  if (fast != nullptr && fast != Py_None)
    outcome = call_fast(self, fast, args, kwargs, in_call);
  Py_XDECREF(fast);
  const auto& [result, failed, needs_slow_path] = outcome;
  if (result != nullptr && !needs_slow_path) return result;
  PyObject* const after =
      call_slow_path(self, result == nullptr ? Py_None : result,
                     failed == nullptr ? Py_None : failed, args, kwargs);
  Py_XDECREF(result);
  Py_XDECREF(failed);
  return after;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_compiled_call(self).fast);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_compiled_call(self).fast);
  return 0;
}

// Implements tp_dealloc.
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char*>("Base class of compiled functions; implements their call.")},
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

Py_ssize_t count_runs() { return runs.load(); }

void define_compiled_call(nb::module_& m) {
  methods = new Methods;
  define_call_with_arguments(m);
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("CompiledCall") = type;
}

}  // namespace bellhop
