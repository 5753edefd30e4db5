// callbacks/invocation.cc: call a Python function with XLA buffers.
#include "callbacks/invocation.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "arrays/large_memory.h"
#include "arrays/numpy_arrays.h"
#include "arrays/small_array.h"
#include "interpreter/daemon_threads.h"
#include "interpreter/failures.h"
#include "interpreter/garbage_collector.h"
#include "interpreter/sole_reference.h"
#include "profile/active_calls.h"

namespace bellhop {
namespace {

namespace nb = nanobind;

// Argument arrays up to this size are reused by the next call.
constexpr size_t kSpareBytes = 4096;

PyObject* call_python(PyObject* function, PyObject* const* arguments, size_t count) {
  return call_or_sleep(
      [&] { return PyObject_Vectorcall(function, arguments, count, nullptr); });
}

// Calls a function of a Python module and drops its result or exception.
void call_module(const char* name, const char* function, auto&&... arguments) {
  try {
    nb::module_::import_(name).attr(function)(arguments...);
  } catch (const nb::python_error&) {
  }
}

// The NumPy arrays of one call: the output arrays, if the function writes its results,
// then the argument arrays. They have memory of their own, because XLA does not support
// that Python keeps an array, or a view of one, after the call; a callback with
// in_place=True receives views of the program's memory instead. Callbacks may run in
// several threads and recursively, so a call holds the callback's spare arrays
// exclusively.
class CallArrays {
 public:
  CallArrays(Callback& callback, std::span<const BufferView> buffers, size_t written)
      : callback_(callback),
        buffers_(buffers),
        written_(written),
        spares_(buffers.empty() ? nullptr : callback.spares.exchange(nullptr)),
        arrays_(buffers.size()) {
    for (PyObject*& array : arrays_) array = nullptr;
  }
  ~CallArrays() {
    for (PyObject* array : arrays_) Py_XDECREF(array);
  }

  // Makes all arrays. Returns false with a Python error set.
  bool make() {
    if (arrays_.size() == 0) return true;
    if (spares_ == nullptr) spares_ = std::make_unique<SpareArrays>();
    if (spares_->arrays.size() < arrays_.size()) spares_->arrays.resize(arrays_.size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      arrays_[i] = is_lent(i)      ? make_array_view(buffers_[i], is_written(i))
                   : is_written(i) ? make_output_array(i)
                                   : make_argument_array(i);
      if (arrays_[i] == nullptr) return false;
    }
    return true;
  }

  PyObject** data() { return arrays_.data(); }

  // Stores the output arrays into the program's buffers. A view of the program's memory
  // is only checked for changes of shape, dtype or strides. Returns false with a Python
  // error set.
  bool store_written() {
    for (size_t i = 0; i < written_; ++i) {
      const int stored = is_lent(i) ? is_intact_view(arrays_[i], buffers_[i])
                                    : store_exact(arrays_[i], buffers_[i]);
      if (stored == 0) {
        PyErr_Format(PyExc_TypeError,
                     "%s changed the shape or dtype of its output %zu. Write into it, "
                     "as in out[...] = value.",
                     callback_.description.c_str(), i);
      }
      if (stored != 1) return false;
    }
    return true;
  }

  // Checks that the function has kept no array with the program's memory; a view of an
  // array keeps the array. Returns false with a Python error set if it has.
  bool check_released() {
    if (!has_lent()) return true;
    // An unreachable reference cycle, such as a caught exception and its frame, does
    // not count as kept.
    if (find_unreleased() != arrays_.size()) collect_garbage();
    const size_t i = find_unreleased();
    if (i == arrays_.size()) return true;
    const char* what = i < written_ ? "output" : "argument";
    PyErr_Format(PyExc_RuntimeError,
                 "%s kept its %s %zu (or a view of it), which is the program's memory "
                 "with in_place=True. Keep a copy, np.array(x), instead.",
                 callback_.description.c_str(), what, i < written_ ? i : i - written_);
    return false;
  }

  // Returns whether any array is a view of the program's memory.
  bool has_lent() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (is_lent(i)) return true;
    }
    return false;
  }

  // Keeps the small argument arrays that the next call can reuse.
  void put_back() {
    for (size_t i = written_; i < arrays_.size(); ++i) {
      if (!is_lent(i) && is_sole_reference(arrays_[i]) &&
          size_bytes(buffers_[i]) <= kSpareBytes) {
        spares_->arrays[i] = std::exchange(arrays_[i], nullptr);
      }
    }
    spares_.reset(callback_.spares.exchange(spares_.release()));
  }

 private:
  // Returns whether array i is a view of the program's memory.
  bool is_lent(size_t i) const { return callback_.in_place && !is_packed(buffers_[i]); }

  // Returns the index of the first array with the program's memory that has other
  // references, or the number of arrays.
  size_t find_unreleased() {
    size_t i = 0;
    while (i < arrays_.size() &&
           (arrays_[i] == nullptr || !is_lent(i) || is_sole_reference(arrays_[i]))) {
      ++i;
    }
    return i;
  }

  // Returns whether buffer i is a result, or an argument whose buffer the program
  // reuses for a result.
  bool is_written(size_t i) const {
    return i < written_ || find_sharing(i, 0, written_) != written_;
  }

  // Returns the index of the first buffer in [begin, end) with the memory and shape of
  // buffer i, or `end`.
  size_t find_sharing(size_t i, size_t begin, size_t end) const {
    const BufferView& buffer = buffers_[i];
    // Empty buffers may have any address, so types and shapes are compared too.
    const auto shares = [&buffer](const BufferView& other) {
      return other.data == buffer.data && other.dtype == buffer.dtype &&
             std::equal(other.dims, other.dims + other.rank, buffer.dims,
                        buffer.dims + buffer.rank);
    };
    return std::find_if(buffers_.begin() + begin, buffers_.begin() + end, shares) -
           buffers_.begin();
  }

  // Makes the array of an argument, or refills one of an earlier call.
  PyObject* make_argument_array(size_t i) {
    if (PyObject* spare = std::exchange(spares_->arrays[i], nullptr)) {
      if (refill(spare, buffers_[i])) return spare;
      Py_DECREF(spare);
    }
    return make_array_copy(buffers_[i]);
  }

  // Makes the array of an output. An argument that shares the result's buffer gets the
  // same array, filled with the argument.
  PyObject* make_output_array(size_t i) {
    if (i >= written_) return Py_NewRef(arrays_[find_sharing(i, 0, written_)]);
    if (find_sharing(i, written_, buffers_.size()) == buffers_.size()) {
      // Zeros, because elements that the function does not write must not expose memory
      // of other arrays.
      return make_zeros(buffers_[i]);
    }
    PyObject* array = make_array_copy(buffers_[i]);
    if (array != nullptr) set_writable(array);
    return array;
  }

  Callback& callback_;
  std::span<const BufferView> buffers_;
  size_t written_;
  std::unique_ptr<SpareArrays> spares_;
  SmallArray<PyObject*, 8> arrays_;
};

// Adds a note with the callback and its call site, unless the exception has it: an
// exception object may be raised repeatedly.
void add_note_once(PyObject* exception, const Callback& callback) {
  const std::string place =
      callback.description + ", called from " + callback.call_site.site;
  try {
    const auto note = nb::steal(PyUnicode_FromFormat("raised in %s", place.c_str()));
    nb::object notes = nb::getattr(exception, "__notes__", nb::none());
    if (notes.is_none()) {
      notes = nb::list();
      // add_note would fail for classes that reject attributes, such as frozen
      // dataclasses.
      const auto name = nb::str("__notes__");
      if (PyObject_GenericSetAttr(exception, name.ptr(), notes.ptr()) != 0) {
        nb::raise_python_error();
      }
    }
    const int is_there = PySequence_Contains(notes.ptr(), note.ptr());
    if (is_there < 0) nb::raise_python_error();
    if (is_there == 0) notes.attr("append")(note);
  } catch (const nb::python_error&) {
  }
}

// Clears the frames of an exception's traceback, which keep the arguments and views of
// them alive.
void clear_frames(PyObject* exception) {
  const auto traceback = nb::steal(PyException_GetTraceback(exception));
  if (traceback.is_valid()) call_module("traceback", "clear_frames", traceback);
}

// Takes the current Python error, with a note that names the callback.
PyObject* take_noted_exception(const Callback& callback) {
  PyObject* exception = take_exception();
  add_note_once(exception, callback);
  return exception;
}

// Takes an error that the function raised. If the function has kept memory of the
// program, the error about that is returned, with the function's error as its cause.
PyObject* take_noted_exception(const Callback& callback, CallArrays& arrays) {
  if (!arrays.has_lent()) return take_noted_exception(callback);
  PyObject* exception = take_exception();
  clear_frames(exception);
  if (arrays.check_released()) {
    add_note_once(exception, callback);
    return exception;
  }
  PyObject* kept = take_exception();
  PyException_SetCause(kept, exception);
  add_note_once(kept, callback);
  return kept;
}

// Converts a result to its declared type with the callback's Python function `convert`;
// null with a Python error set.
nb::object convert(const Callback& callback, PyObject* value, const BufferView& buffer,
                   size_t index) {
  PyObject* dtype = numpy_dtype(buffer.dtype);
  if (dtype == nullptr) {
    PyErr_Format(PyExc_TypeError,
                 "result %zu has XLA element type %d, for which NumPy has no dtype. "
                 "Declare a result type with another dtype.",
                 index, buffer.dtype);
    return {};
  }
  const auto shape = nb::steal(PyTuple_New(buffer.rank));
  if (!shape.is_valid()) return {};
  for (int64_t i = 0; i < buffer.rank; ++i) {
    PyTuple_SET_ITEM(shape.ptr(), i, PyLong_FromLongLong(buffer.dims[i]));
  }
  const auto number = nb::steal(PyLong_FromSize_t(index));
  PyObject* const arguments[] = {value, dtype, shape.ptr(), number.ptr()};
  return nb::steal(call_python(callback.convert, arguments, 4));
}

// Stores one result leaf, converting it if necessary. Returns false with a Python error
// set.
bool store(const Callback& callback, PyObject* value, const BufferView& buffer,
           size_t index) {
  if (const int stored = store_exact(value, buffer); stored != 0) return stored == 1;
  const nb::object converted = convert(callback, value, buffer, index);
  if (!converted.is_valid()) return false;
  const int stored = store_exact(converted.ptr(), buffer);
  if (stored == 0) {
    PyErr_Format(PyExc_TypeError,
                 "internal error: result %zu does not have its declared shape and "
                 "dtype after its conversion. Please report this as a bug in Bellhop.",
                 index);
  }
  return stored == 1;
}

// Stores the results that a function returned. Returns false with a Python error set;
// `result` may be null if an error is set already.
bool store_all(const Callback& callback, const nb::object& result,
               std::span<const BufferView> buffers) {
  if (!result.is_valid()) return false;
  if (buffers.size() == 1) return store(callback, result.ptr(), buffers[0], 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    PyObject* leaf = PyTuple_GET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i));
    if (!store(callback, leaf, buffers[i], i)) return false;
  }
  return true;
}

void prefer_huge_pages(std::span<const BufferView> results) {
  for (const BufferView& result : results) {
    if (result.rank == 0) continue;
    bellhop::prefer_huge_pages(result.data, memory_bytes(result));
  }
}

// Calls a function that returns its results.
PyObject* call(Callback& callback, std::span<const BufferView> arguments,
               std::span<const BufferView> results) {
  CallArrays arrays(callback, arguments, /*written=*/0);
  if (!arrays.make()) return take_noted_exception(callback);
  {
    const auto result =
        nb::steal(call_python(callback.function, arrays.data(), arguments.size()));
    if (!store_all(callback, result, results)) return take_noted_exception(callback);
  }
  arrays.put_back();
  return nullptr;
}

// Calls a function that writes its results.
PyObject* call_in_place(Callback& callback, std::span<const BufferView> arguments,
                        std::span<const BufferView> results) {
  SmallArray<BufferView, 8> buffers(results.size() + arguments.size());
  std::copy(arguments.begin(), arguments.end(),
            std::copy(results.begin(), results.end(), buffers.data()));
  CallArrays arrays(callback, {buffers.data(), buffers.size()}, results.size());
  if (!arrays.make()) return take_noted_exception(callback);
  auto result =
      nb::steal(call_python(callback.function, arrays.data(), buffers.size()));
  if (result.is_valid() && !result.is_none()) {
    PyErr_Format(
        PyExc_TypeError,
        "%s returned a value of type %s, expected None. Write the results into "
        "its outputs, as in out[...] = value.",
        callback.description.c_str(), Py_TYPE(result.ptr())->tp_name);
    result.reset();  // it may contain memory that the function was lent
  }
  if (!result.is_valid()) return take_noted_exception(callback, arrays);
  if (!arrays.check_released() || !arrays.store_written())
    return take_noted_exception(callback);
  arrays.put_back();
  return nullptr;
}

}  // namespace

PyObject* invoke(Callback& callback, std::span<const BufferView> arguments,
                 std::span<const BufferView> results) {
  const ActiveCall active(callback.object);
  prefer_huge_pages(results);
  return callback.results == Results::kWritten
             ? call_in_place(callback, arguments, results)
             : call(callback, arguments, results);
}

PyObject* start_region(Callback& callback, std::span<const BufferView> arguments,
                       PyObject** finish) {
  const ActiveCall active(callback.object);
  CallArrays arrays(callback, arguments, /*written=*/0);
  if (!arrays.make()) return take_noted_exception(callback);
  const auto method = nb::steal(PyObject_GetAttrString(callback.function, "start"));
  if (method.is_valid()) {
    *finish = call_python(method.ptr(), arrays.data(), arguments.size());
  }
  if (PyErr_Occurred() != nullptr) return take_noted_exception(callback);
  arrays.put_back();
  return nullptr;
}

PyObject* finish_region(Callback& callback, PyObject* finish,
                        std::span<const BufferView> results) {
  const ActiveCall active(callback.object);
  prefer_huge_pages(results);
  const auto result = nb::steal(call_python(finish, nullptr, 0));
  return store_all(callback, result, results) ? nullptr
                                              : take_noted_exception(callback);
}

}  // namespace bellhop
