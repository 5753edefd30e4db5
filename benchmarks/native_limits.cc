// benchmarks/native_limits.cc: the least that a callback in a compiled loop can cost.
//
// Built by benchmarks/native_limits.py for the benchmarks alone, and called through
// ctypes.PyDLL, so with the GIL held.
#include <Python.h>

#include <cstring>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "xla/ffi/api/ffi.h"

namespace {

PyObject* array_of(double x) {
  PyObject* array = PyArray_SimpleNew(0, nullptr, NPY_DOUBLE);
  if (array == nullptr) return nullptr;
  std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array)), &x, sizeof(x));
  return array;
}

double number_in(PyObject* result) {
  if (!PyArray_Check(result)) return PyFloat_AsDouble(result);
  double x = 0;
  std::memcpy(&x, PyArray_DATA(reinterpret_cast<PyArrayObject*>(result)), sizeof(x));
  return x;
}

// What XLA asks of a handler once, when it is registered.
XLA_FFI_Error* describe_handler(XLA_FFI_CallFrame* frame) {
  static const auto* described =
      xla::ffi::Ffi::Bind().To([] { return xla::ffi::Error::Success(); }).release();
  return described->Call(frame);
}

}  // namespace

extern "C" {

// False with a Python error set.
bool limits_init() {
  import_array1(false);
  return true;
}

// x = function(array of x), over and over.
double limits_call_in_loop(PyObject* function, double x, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    PyObject* argument = array_of(x);
    if (argument == nullptr) return -1;
    PyObject* result = PyObject_Vectorcall(function, &argument, 1, nullptr);
    Py_DECREF(argument);
    if (result == nullptr) return -1;
    x = number_in(result);
    Py_DECREF(result);
  }
  return x;
}

// A custom call that hands its f64[] on. It reads the frame itself: XLA's own decoding
// is more than the rest.
XLA_FFI_Error* limits_noop(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  const auto* argument = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* result = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  std::memcpy(result->data, argument->data, sizeof(double));
  return nullptr;
}
}
