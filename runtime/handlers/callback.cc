// runtime/handlers/callback.cc: the custom call that runs a Python function.
#include <Python.h>

#include <array>
#include <cstring>
#include <string>

#include "bellhop/callback_table.h"
#include "bellhop/failures.h"
#include "bellhop/numpy_arrays.h"
#include "bellhop/registry.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

namespace ffi = xla::ffi;

Callback::Callback(PyObject* function, PyObject* convert, std::string name,
                   std::string site, Arguments arguments)
    : function(Py_NewRef(function)),
      convert(Py_NewRef(convert)),
      name(std::move(name)),
      site(std::move(site)),
      arguments(arguments) {}

Callback::~Callback() {
  Py_DECREF(function);
  Py_DECREF(convert);
}

namespace {

// Below this a copy costs less than watching what becomes of a view.
constexpr size_t kCopyBelowBytes = 4096;

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// The leaves of one call, without an allocation for the usual few.
class References {
 public:
  explicit References(size_t size) : size_(size) {
    if (size > inline_.size()) {
      data_ = static_cast<PyObject**>(PyMem_Calloc(size, sizeof(PyObject*)));
    }
  }
  ~References() {
    for (size_t i = 0; i < size_; ++i) Py_XDECREF(data_[i]);
    if (data_ != inline_.data()) PyMem_Free(data_);
  }
  References(const References&) = delete;
  References& operator=(const References&) = delete;
  PyObject*& operator[](size_t i) { return data_[i]; }
  PyObject** data() { return data_; }

 private:
  std::array<PyObject*, 16> inline_ = {};
  PyObject** data_ = inline_.data();
  size_t size_;
};

BufferView view_of(const ffi::AnyBuffer& buffer) {
  return {static_cast<int>(buffer.element_type()), buffer.dimensions().begin(),
          static_cast<int64_t>(buffer.dimensions().size()), buffer.untyped_data()};
}

bool starts_with_token(const ffi::RemainingArgs& args) {
  return args.size() > 0 &&
         args.get<ffi::AnyBuffer>(0).value().element_type() == ffi::DataType::TOKEN;
}

// Frames of the traceback hold the arguments, and views of them, past the call.
void clear_frames(PyObject* exception) {
  PyObject* traceback = PyException_GetTraceback(exception);
  if (traceback == nullptr) return;
  if (PyObject* module = PyImport_ImportModule("traceback")) {
    PyObject* done = PyObject_CallMethod(module, "clear_frames", "O", traceback);
    Py_XDECREF(done);
    Py_DECREF(module);
  }
  PyErr_Clear();
  Py_DECREF(traceback);
}

// Takes the current Python error, adds where it happened, and leaves it for the
// caller of the program.
ffi::Error fail(int64_t run_id, const Callback& callback, References& arguments,
                size_t count) {
  PyObject* type = nullptr;
  PyObject* exception = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(exception, traceback);
  Py_XDECREF(traceback);
  Py_DECREF(type);

  for (size_t i = 0; i < count; ++i) {
    if (arguments[i] != nullptr && Py_REFCNT(arguments[i]) > 1) {
      clear_frames(exception);
      if (Py_REFCNT(arguments[i]) > 1) detach(arguments[i]);
    }
  }

  const std::string note =
      "raised in callback '" + callback.name + "', called from " + callback.site;
  PyObject* noted = PyObject_CallMethod(exception, "add_note", "s", note.c_str());
  Py_XDECREF(noted);
  PyErr_Clear();

  std::string text = Py_TYPE(exception)->tp_name;
  if (PyObject* message = PyObject_Str(exception)) {
    if (const char* utf8 = PyUnicode_AsUTF8(message)) text += std::string(": ") + utf8;
    Py_DECREF(message);
  }
  PyErr_Clear();
  keep_failure(run_id, exception);
  return ffi::Error::Internal(text + " (" + note + ") [bellhop run " +
                              std::to_string(run_id) + "]");
}

// Stores one result leaf; false with a Python error set.
bool store(const Callback& callback, PyObject* value, const BufferView& buffer,
           size_t index) {
  switch (store_exact(value, buffer)) {
    case 1:
      return true;
    case -1:
      return false;
    default:
      break;
  }
  PyObject* dtype = dtype_of(buffer.dtype);
  PyObject* shape = PyTuple_New(buffer.rank);
  if (dtype == nullptr || shape == nullptr) {
    Py_XDECREF(shape);
    if (!PyErr_Occurred()) {
      PyErr_SetString(PyExc_TypeError,
                      "the result has an element type unknown to NumPy");
    }
    return false;
  }
  for (int64_t i = 0; i < buffer.rank; ++i) {
    PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(buffer.dims[i]));
  }
  PyObject* converted = PyObject_CallFunction(callback.convert, "OOOn", value, dtype,
                                              shape, static_cast<Py_ssize_t>(index));
  Py_DECREF(shape);
  if (converted == nullptr) return false;
  const int stored = store_exact(converted, buffer);
  Py_DECREF(converted);
  if (stored == 0)
    PyErr_SetString(PyExc_TypeError, "the result could not be converted");
  return stored == 1;
}

// Threading: any XLA thread; takes the GIL for the whole call and no other lock.
// Ownership: arguments are copies, or views that must be dropped before it returns;
// results are copied into XLA's buffers, and the table is the running program's.
ffi::Error call(ffi::RunId run, ffi::Buffer<ffi::U32> table_handle,
                ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t program,
                int64_t index) {
  Gil gil;
  uint64_t address = 0;
  std::memcpy(&address, table_handle.untyped_data(), sizeof(address));
  const auto* table = reinterpret_cast<const CallbackTable*>(address);
  const Callback* callback = table == nullptr ? nullptr : table->find(program, index);
  if (callback == nullptr) {
    return ffi::Error::Internal("bellhop: the program has no callback number " +
                                std::to_string(index) +
                                "; this is an error of bellhop, please report it");
  }

  // Ordered calls take a token first and return one first; it holds nothing.
  const size_t tokens = starts_with_token(args) ? 1 : 0;
  const size_t count = args.size() - tokens;
  const size_t results = rets.size() - tokens;
  References arguments(count);
  bool has_views = false;
  for (size_t i = 0; i < count; ++i) {
    const BufferView buffer = view_of(args.get<ffi::AnyBuffer>(tokens + i).value());
    if (callback->arguments == Arguments::kCopies ||
        size_bytes(buffer) <= kCopyBelowBytes) {
      arguments[i] = array_copy(buffer);
    } else {
      arguments[i] = array_view(buffer);
      has_views = true;
    }
    if (arguments[i] == nullptr) return fail(run.run_id, *callback, arguments, i);
  }

  PyObject* result =
      PyObject_Vectorcall(callback->function, arguments.data(), count, nullptr);
  if (result == nullptr) return fail(run.run_id, *callback, arguments, count);

  bool stored = true;
  for (size_t i = 0; stored && i < results; ++i) {
    PyObject* leaf =
        results == 1 ? result : PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
    stored = store(*callback, leaf,
                   view_of(*rets.get<ffi::AnyBuffer>(tokens + i).value()), i);
  }
  Py_DECREF(result);
  if (!stored) return fail(run.run_id, *callback, arguments, count);

  if (has_views) {
    for (size_t i = 0; i < count; ++i) {
      if (Py_REFCNT(arguments[i]) > 1) {
        PyErr_Format(PyExc_RuntimeError,
                     "callback '%s' kept its argument %zu (or a view of it) after "
                     "returning, but the argument's memory is the program's. Keep a "
                     "copy, np.array(x), instead.",
                     callback->name.c_str(), i);
        return fail(run.run_id, *callback, arguments, count);
      }
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(callback_handler, call,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::RunId>()
                                  .Arg<ffi::Buffer<ffi::U32>>()  // table
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("program")
                                  .Attr<int64_t>("index"));

}  // namespace

std::vector<Target> callback_targets() {
  return {{"bellhop_callback", nullptr,
           reinterpret_cast<XLA_FFI_Handler*>(callback_handler)}};
}

}  // namespace bellhop
