// Custom calls that the stand-in for a GPU has where JAX's own plugin for GPUs has its.
//
// Python is called with the GIL, which is taken here.  Memory is the program's: views
// of it hold until the call returns.
#include <Python.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// What is called: f(index, arguments, results) -> None, or the text of an error.
PyObject* call_values = nullptr;
PyObject* call_buffers = nullptr;

// (memory, number of the element type, dimensions), or None for a token.
PyObject* described(const ffi::AnyBuffer& buffer, bool is_written) {
  if (buffer.element_type() == ffi::DataType::TOKEN) Py_RETURN_NONE;
  auto dimensions = buffer.dimensions();
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(dimensions.size()));
  for (size_t i = 0; i < dimensions.size(); ++i)
    PyTuple_SET_ITEM(shape, static_cast<Py_ssize_t>(i),
                     PyLong_FromLongLong(dimensions[i]));
  static char nothing;
  void* data = buffer.untyped_data();
  PyObject* memory =
      PyMemoryView_FromMemory(data ? static_cast<char*>(data) : &nothing,
                              static_cast<Py_ssize_t>(buffer.size_bytes()),
                              is_written ? PyBUF_WRITE : PyBUF_READ);
  return Py_BuildValue("(NiN)", memory, static_cast<int>(buffer.element_type()), shape);
}

ffi::Error call(PyObject* function, uint64_t index, ffi::RemainingArgs args,
                ffi::RemainingRets rets) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* arguments = PyList_New(0);
  PyObject* results = PyList_New(0);
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject* each = described(*args.get<ffi::AnyBuffer>(i), false);
    PyList_Append(arguments, each);
    Py_DECREF(each);
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    PyObject* each = described(**rets.get<ffi::AnyBuffer>(i), true);
    PyList_Append(results, each);
    Py_DECREF(each);
  }
  PyObject* failed = PyObject_CallFunction(
      function, "KOO", static_cast<unsigned long long>(index), arguments, results);
  Py_DECREF(arguments);
  Py_DECREF(results);
  std::string text = "the stand-in's own code failed";
  bool is_good = failed == Py_None;
  if (!failed) {
    PyErr_Print();
  } else if (!is_good) {
    text = PyUnicode_AsUTF8(failed);
  }
  Py_XDECREF(failed);
  PyGILState_Release(state);
  return is_good ? ffi::Error::Success() : ffi::Error(ffi::ErrorCode::kInternal, text);
}

ffi::Error values(uint64_t index, ffi::RemainingArgs args, ffi::RemainingRets rets) {
  return call(call_values, index, args, rets);
}

ffi::Error buffers(uint64_t index, ffi::RemainingArgs args, ffi::RemainingRets rets) {
  return call(call_buffers, index, args, rets);
}

ffi::Error busy(int64_t microseconds, ffi::AnyBuffer given,
                ffi::Result<ffi::AnyBuffer> result) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  std::memcpy(result->untyped_data(), given.untyped_data(), given.size_bytes());
  return ffi::Error::Success();
}

}  // namespace

extern "C" void set_functions(PyObject* values_function, PyObject* buffers_function) {
  Py_INCREF(values_function);
  Py_INCREF(buffers_function);
  call_values = values_function;
  call_buffers = buffers_function;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Values, values,
    ffi::Ffi::Bind().Attr<uint64_t>("index").RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Buffers, buffers,
    ffi::Ffi::Bind().Attr<uint64_t>("index").RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(Busy, busy,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("microseconds")
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());
