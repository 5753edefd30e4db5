// runtime/handlers/invocation.cc: calling a Python function with buffers.
#include "bellhop/invocation.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "bellhop/large_memory.h"
#include "bellhop/small_array.h"

namespace bellhop {
namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> numbers = 0;
  return ++numbers;
}

}  // namespace

Callback::Callback(PyObject* function, PyObject* convert, std::string description,
                   std::string site, Arguments arguments, Results results,
                   bool takes_device, std::shared_ptr<Bars> bars, Origin origin)
    : function(Py_NewRef(function)),
      convert(Py_NewRef(convert)),
      description(std::move(description)),
      site(std::move(site)),
      arguments(arguments),
      results(results),
      takes_device(takes_device),
      origin(std::move(origin)),
      number(next_number()),
      bars(std::move(bars)) {}

Callback::~Callback() {
  Py_DECREF(function);
  Py_DECREF(convert);
  for (PyObject* spare : spares) Py_XDECREF(spare);
}

namespace {

// Below this a copy costs less than watching what becomes of a view.
constexpr size_t kCopyBelowBytes = 4096;

// Makes others let go of what they hold no longer: JAX of what it was lent, which it
// keeps until Python's collector runs, of the youngest objects at least.
void collect_young_garbage() {
  if (PyObject* gc = PyImport_ImportModule("gc")) {
    Py_XDECREF(PyObject_CallMethod(gc, "collect", "i", 0));
    Py_DECREF(gc);
  }
  PyErr_Clear();
}

// The arrays that one call hands over: those that the function writes into, if it
// does, then the arguments. Callbacks may run in several threads and call themselves,
// so an array leaves the callback's spares for as long as it is in use.
class CallArrays {
 public:
  CallArrays(Callback& callback, std::span<const BufferView> buffers, size_t written)
      : callback_(callback),
        buffers_(buffers),
        written_(written),
        arrays_(buffers.size()) {
    for (PyObject*& array : arrays_) array = nullptr;
  }
  ~CallArrays() {
    for (PyObject* array : arrays_) Py_XDECREF(array);
  }

  // False with a Python error set.
  bool make() {
    if (callback_.spares.size() < arrays_.size()) {
      callback_.spares.resize(arrays_.size());
    }
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const BufferView& buffer = buffers_[i];
      if (is_written(i)) {
        arrays_[i] = written_array(i);
        if (arrays_[i] == nullptr) return false;
        continue;
      }
      const bool is_small = size_bytes(buffer) <= kCopyBelowBytes;
      if (PyObject* spare = std::exchange(callback_.spares[i], nullptr)) {
        if (refill(spare, buffer)) {
          arrays_[i] = spare;
          continue;
        }
        Py_DECREF(spare);
      }
      const bool copies =
          is_small || is_packed(buffer) || callback_.arguments == Arguments::kCopies;
      has_views_ |= !copies && callback_.arguments == Arguments::kViews;
      arrays_[i] = copies ? array_copy(buffer) : array_view(buffer, /*writable=*/false);
      if (arrays_[i] == nullptr) return false;
    }
    return true;
  }

  PyObject** data() { return arrays_.data(); }

  // Keeps what can serve the next call. False with a Python error set where a view
  // of the program's memory is still in someone's hands.
  bool put_back() {
    bool collected = false;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (i < written_ && is_packed(buffers_[i])) {
        if (!pack_written(i)) return false;
        continue;
      }
      const bool is_program_memory = has_views_ && is_view(arrays_[i]);
      if (is_program_memory && Py_REFCNT(arrays_[i]) > 1) collect_young_garbage();
      if (is_program_memory && Py_REFCNT(arrays_[i]) > 1 && !collected) {
        // A reference cycle, such as a caught exception and its frame, is nobody's
        // hands.
        PyGC_Collect();
        collected = true;
      }
      const bool is_kept = Py_REFCNT(arrays_[i]) > 1;
      if (is_program_memory && is_kept) {
        set_kept_error(i);
        return false;
      }
      if (!is_kept && !is_program_memory &&
          size_bytes(buffers_[i]) <= kCopyBelowBytes &&
          callback_.spares[i] == nullptr) {
        callback_.spares[i] = std::exchange(arrays_[i], nullptr);
      }
    }
    return true;
  }

  // After a failure: whatever holds a view of the program's memory must not do so
  // for longer.
  void let_go(PyObject* exception);

 private:
  // Whether buffer i is a result, or an argument that the program gave up for one.
  bool is_written(size_t i) const {
    if (i < written_) return true;
    const auto shares = [&](const BufferView& result) {
      return result.data == buffers_[i].data;
    };
    return std::any_of(buffers_.begin(), buffers_.begin() + written_, shares);
  }

  // A view, or where there can be none an array that is packed after the call: the
  // same one for a result and the argument that was given up for it.
  PyObject* written_array(size_t i) {
    const BufferView& buffer = buffers_[i];
    if (!is_packed(buffer)) {
      has_views_ = true;
      return array_view(buffer, /*writable=*/true);
    }
    for (size_t result = 0; result < std::min(i, written_); ++result) {
      if (buffers_[result].data == buffer.data) return Py_NewRef(arrays_[result]);
    }
    PyObject* array = array_copy(buffer);
    if (array != nullptr) set_writable(array);
    return array;
  }

  bool pack_written(size_t i) {
    const int stored = store_exact(arrays_[i], buffers_[i]);
    if (stored == 0) {
      PyErr_Format(PyExc_TypeError, "%s changed the shape or dtype of its output %zu",
                   callback_.description.c_str(), i);
    }
    return stored == 1;
  }

  void set_kept_error(size_t i) const {
    const char* what = i < written_ ? "output" : "argument";
    PyErr_Format(PyExc_RuntimeError,
                 "%s kept its %s %zu (or a view of it) after returning, but "
                 "the %s's memory is the program's. Keep a copy, np.array(x), instead.",
                 callback_.description.c_str(), what, i < written_ ? i : i - written_,
                 what);
  }

  Callback& callback_;
  std::span<const BufferView> buffers_;
  size_t written_;
  SmallArray<PyObject*, 8> arrays_;
  bool has_views_ = false;
};

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

void CallArrays::let_go(PyObject* exception) {
  for (PyObject* array : arrays_) {
    if (array == nullptr || !is_view(array) || Py_REFCNT(array) == 1) continue;
    clear_frames(exception);
    if (Py_REFCNT(array) > 1) detach(array);
  }
}

// An exception object may be raised more than once.
void add_note_once(PyObject* exception, const Callback& callback) {
  PyObject* note =
      PyUnicode_FromFormat("raised in %s, called from %s", callback.description.c_str(),
                           callback.site.c_str());
  PyObject* notes = PyObject_GetAttrString(exception, "__notes__");
  PyErr_Clear();
  if (note != nullptr && (notes == nullptr || PySequence_Contains(notes, note) != 1)) {
    PyErr_Clear();
    Py_XDECREF(PyObject_CallMethod(exception, "add_note", "O", note));
  }
  Py_XDECREF(notes);
  Py_XDECREF(note);
  PyErr_Clear();
}

// Takes the current Python error and says in it where it happened.
PyObject* failure(const Callback& callback, CallArrays& arguments) {
  PyObject* type = nullptr;
  PyObject* exception = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(exception, traceback);
  Py_XDECREF(traceback);
  Py_DECREF(type);
  arguments.let_go(exception);
  add_note_once(exception, callback);
  return exception;
}

// Asks the callback's Python side for a result that is exactly as declared. New
// reference; null with a Python error set.
PyObject* convert(const Callback& callback, PyObject* value, const BufferView& buffer,
                  size_t index) {
  PyObject* dtype = dtype_of(buffer.dtype);
  if (dtype == nullptr) {
    PyErr_Format(PyExc_TypeError, "results of XLA element type %d have no NumPy dtype",
                 buffer.dtype);
    return nullptr;
  }
  PyObject* shape = PyTuple_New(buffer.rank);
  if (shape == nullptr) return nullptr;
  for (int64_t i = 0; i < buffer.rank; ++i) {
    PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(buffer.dims[i]));
  }
  PyObject* converted = PyObject_CallFunction(callback.convert, "OOOn", value, dtype,
                                              shape, static_cast<Py_ssize_t>(index));
  Py_DECREF(shape);
  return converted;
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
  PyObject* converted = convert(callback, value, buffer, index);
  if (converted == nullptr) return false;
  const int stored = store_exact(converted, buffer);
  Py_DECREF(converted);
  if (stored == 0) {
    PyErr_SetString(PyExc_TypeError, "the result could not be converted");
  }
  return stored == 1;
}

bool store_all(const Callback& callback, PyObject* result,
               std::span<const BufferView> buffers) {
  if (buffers.size() == 1) return store(callback, result, buffers[0], 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    PyObject* leaf = PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i));
    if (!store(callback, leaf, buffers[i], i)) return false;
  }
  return true;
}

// Calls a function that returns its results.
PyObject* call(Callback& callback, std::span<const BufferView> arguments,
               std::span<const BufferView> results) {
  CallArrays arrays(callback, arguments, /*written=*/0);
  if (!arrays.make()) return failure(callback, arrays);
  PyObject* result =
      PyObject_Vectorcall(callback.function, arrays.data(), arguments.size(), nullptr);
  if (result == nullptr) return failure(callback, arrays);
  const bool stored = store_all(callback, result, results);
  Py_DECREF(result);
  if (!stored || !arrays.put_back()) return failure(callback, arrays);
  return nullptr;
}

// Calls a function that writes its results.
PyObject* call_in_place(Callback& callback, std::span<const BufferView> arguments,
                        std::span<const BufferView> results) {
  SmallArray<BufferView, 8> buffers(results.size() + arguments.size());
  std::copy(arguments.begin(), arguments.end(),
            std::copy(results.begin(), results.end(), buffers.data()));
  CallArrays arrays(callback, {buffers.data(), buffers.size()}, results.size());
  if (!arrays.make()) return failure(callback, arrays);
  PyObject* result =
      PyObject_Vectorcall(callback.function, arrays.data(), buffers.size(), nullptr);
  if (result == nullptr) return failure(callback, arrays);
  if (result != Py_None) {
    PyErr_Format(PyExc_TypeError,
                 "%s returned a value of type %s. Its results are what it "
                 "writes into its outputs, as in out[...] = value, and it must return "
                 "None.",
                 callback.description.c_str(), Py_TYPE(result)->tp_name);
  }
  const bool returned_none = result == Py_None;
  Py_DECREF(result);
  if (!returned_none || !arrays.put_back()) return failure(callback, arrays);
  return nullptr;
}

}  // namespace

PyObject* invoke(Callback& callback, std::span<const BufferView> arguments,
                 std::span<const BufferView> results) {
  prefer_huge_pages(results);
  return callback.results == Results::kWritten
             ? call_in_place(callback, arguments, results)
             : call(callback, arguments, results);
}

PyObject* start(Callback& callback, std::span<const BufferView> arguments,
                PyObject** finish) {
  CallArrays arrays(callback, arguments, /*written=*/0);
  if (!arrays.make()) return failure(callback, arrays);
  PyObject* method = PyObject_GetAttrString(callback.function, "start");
  *finish = method == nullptr
                ? nullptr
                : PyObject_Vectorcall(method, arrays.data(), arguments.size(), nullptr);
  Py_XDECREF(method);
  if (*finish == nullptr) return failure(callback, arrays);
  if (arrays.put_back()) return nullptr;
  Py_CLEAR(*finish);
  return failure(callback, arrays);
}

PyObject* finish(Callback& callback, PyObject* finish,
                 std::span<const BufferView> results) {
  CallArrays none(callback, {}, /*written=*/0);
  prefer_huge_pages(results);
  PyObject* result = PyObject_CallNoArgs(finish);
  if (result == nullptr) return failure(callback, none);
  const bool stored = store_all(callback, result, results);
  Py_DECREF(result);
  return stored ? nullptr : failure(callback, none);
}

}  // namespace bellhop
