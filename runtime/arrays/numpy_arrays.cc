// arrays/numpy_arrays.cc: convert XLA buffers to NumPy arrays, and NumPy results back.
#include "arrays/numpy_arrays.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "arrays/large_memory.h"
#include "interpreter/sole_reference.h"

namespace bellhop {
namespace {

constexpr int kElementTypes = 64;
PyArray_Descr* descriptors[kElementTypes] = {};

PyArray_Descr* descriptor(int xla_dtype) {
  return xla_dtype >= 0 && xla_dtype < kElementTypes ? descriptors[xla_dtype] : nullptr;
}

// Values of XLA_FFI_DataType.
enum NarrowType { kS4 = 21, kU4 = 22, kS2 = 26, kU2 = 27, kF4E2M1FN = 32 };

// Returns the bits of a narrow element type, and 8 for all other types.
int element_bits(int xla_dtype) {
  switch (xla_dtype) {
    case kS4:
    case kU4:
    case kF4E2M1FN:
      return 4;
    case kS2:
    case kU2:
      return 2;
    default:
      return 8;
  }
}

bool is_narrow_integer(int xla_dtype) {
  return element_bits(xla_dtype) < 8 && xla_dtype != kF4E2M1FN;
}

// Copies packed narrow elements to an array with one byte each.
void unpack(const BufferView& buffer, void* elements) {
  const int bits = element_bits(buffer.dtype);
  const auto* packed = static_cast<const uint8_t*>(buffer.data);
  auto* out = static_cast<uint8_t*>(elements);
  const size_t count = size_bytes(buffer);
  for (size_t i = 0; i < count; ++i) {
    out[i] = packed[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
  }
}

// Copies narrow elements with one byte each into a packed buffer.
void pack(const uint8_t* elements, const BufferView& buffer) {
  const int bits = element_bits(buffer.dtype);
  auto* packed = static_cast<uint8_t*>(buffer.data);
  const size_t count = size_bytes(buffer);
  std::memset(packed, 0, (count * bits + 7) / 8);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t element = elements[i] & ((1 << bits) - 1);
    packed[i * bits / 8] |= static_cast<uint8_t>(element << (i * bits % 8));
  }
}

// Copies a buffer to the memory of an array of its type, unpacking narrow elements.
void copy_to_array(const BufferView& buffer, void* elements) {
  if (is_packed(buffer)) {
    unpack(buffer, elements);
  } else if (const size_t bytes = size_bytes(buffer); bytes != 0) {
    copy_bytes(elements, buffer.data, bytes);
  }
}

// Larger arrays get aligned memory, which JAX can use without a copy; NumPy's memory is
// aligned only by chance.
constexpr size_t kAlignedFromBytes = 4096;

// Makes an array in new memory if `data` is null, and otherwise a writable view of
// `data`. New reference; null with a Python error set.
PyObject* new_array(const BufferView& buffer, void* data) {
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  PyArray_Descr* descr = descriptor(buffer.dtype);
  if (descr == nullptr) {
    PyErr_Format(PyExc_TypeError,
                 "an array has XLA element type %d, for which NumPy has no dtype. "
                 "Convert the array to another dtype before it is passed to Python.",
                 buffer.dtype);
    return nullptr;
  }
  Py_INCREF(descr);
  return PyArray_NewFromDescr(
      &PyArray_Type, descr, static_cast<int>(buffer.rank),
      const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(buffer.dims)), nullptr,
      data, data == nullptr ? 0 : NPY_ARRAY_CARRAY, nullptr);
}

// Makes an uninitialised array in aligned memory, which the array owns.
PyObject* new_aligned_array(const BufferView& buffer) {
  void* memory = allocate_aligned(size_bytes(buffer));
  if (memory == nullptr) return PyErr_NoMemory();
  PyObject* owner = PyCapsule_New(memory, nullptr, [](PyObject* capsule) {
    std::free(PyCapsule_GetPointer(capsule, nullptr));
  });
  if (owner == nullptr) {
    std::free(memory);
    return nullptr;
  }
  PyObject* array = new_array(buffer, memory);
  if (array == nullptr) {
    Py_DECREF(owner);
  } else if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), owner) !=
             0) {
    Py_CLEAR(array);
  }
  return array;
}

// Makes an uninitialised array with the buffer's shape and type, in new memory.
PyObject* allocate_array(const BufferView& buffer) {
  return size_bytes(buffer) <= kAlignedFromBytes ? new_array(buffer, nullptr)
                                                 : new_aligned_array(buffer);
}

bool has_same_shape(PyArrayObject* array, const BufferView& buffer) {
  return PyArray_NDIM(array) == buffer.rank &&
         std::equal(buffer.dims, buffer.dims + buffer.rank, PyArray_DIMS(array));
}

// Returns whether a Python integer is out of range for a narrow type. NumPy raises for
// its own types, but integers of ml_dtypes wrap around.
bool is_out_of_bounds(PyObject* value, int xla_dtype) {
  const long width = long{1} << element_bits(xla_dtype);
  const bool is_signed = xla_dtype == kS4 || xla_dtype == kS2;
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow != 0 || number < (is_signed ? -width / 2 : 0) ||
         number >= (is_signed ? width / 2 : width);
}

// Returns whether a finite number becomes infinite in a floating-point type. Returns
// true for a finite number of an ml_dtypes type, whose bounds are not known here.
bool rounds_to_infinity(double number, int type_num) {
  // Half a unit in the last place above the largest float16.
  constexpr double kHalfBound = 65520;
  if (type_num == NPY_DOUBLE || !std::isfinite(number)) return false;
  if (type_num == NPY_FLOAT) return !std::isfinite(static_cast<float>(number));
  // Each type of ml_dtypes has its own bound.
  return type_num != NPY_HALF || std::abs(number) >= kHalfBound;
}

// Returns whether a Python number may overflow in a floating-point or complex type.
bool may_overflow(PyObject* value, int type_num) {
  const Py_complex number = PyComplex_AsCComplex(value);
  if (PyErr_Occurred() != nullptr) {
    // The number is an integer that exceeds double precision.
    PyErr_Clear();
    return true;
  }
  const int part = type_num == NPY_CFLOAT    ? NPY_FLOAT
                   : type_num == NPY_CDOUBLE ? NPY_DOUBLE
                                             : type_num;
  return rounds_to_infinity(number.real, part) || rounds_to_infinity(number.imag, part);
}

// Stores a Python scalar, which is weakly typed: it fits any dtype of the same or a
// wider kind. Returns as store_exact does.
int store_python_scalar(PyObject* value, const BufferView& buffer,
                        PyArray_Descr* descr) {
  const bool is_inexact = descr->kind == 'f' || descr->kind == 'c' ||
                          (descr->kind == 'V' && !is_narrow_integer(buffer.dtype));
  const bool fits = PyBool_Check(value)      ? true
                    : PyLong_Check(value)    ? descr->type_num != NPY_BOOL
                    : PyFloat_Check(value)   ? is_inexact
                    : PyComplex_Check(value) ? descr->kind == 'c'
                                             : false;
  if (!fits || buffer.rank != 0) return 0;
  if (PyFloat_CheckExact(value) && descr->type_num == NPY_DOUBLE) {
    *static_cast<double*>(buffer.data) = PyFloat_AS_DOUBLE(value);
    return 1;
  }
  // On overflow the callback's Python side raises an error that names the callback.
  const bool is_too_large = is_inexact ? may_overflow(value, descr->type_num)
                                       : is_narrow_integer(buffer.dtype) &&
                                             is_out_of_bounds(value, buffer.dtype);
  if (is_too_large) return 0;
  const auto set_item = PyDataType_GetArrFuncs(descr)->setitem;
  if (set_item(value, buffer.data, nullptr) == 0) return 1;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
  PyErr_Clear();
  return 0;
}

}  // namespace

bool init_numpy() {
  import_array1(false);
  return true;
}

void set_dtype(int xla_dtype, PyObject* descr) {
  Py_INCREF(descr);
  descriptors[xla_dtype] = reinterpret_cast<PyArray_Descr*>(descr);
}

PyObject* numpy_dtype(int xla_dtype) {
  return reinterpret_cast<PyObject*>(descriptor(xla_dtype));
}

bool is_array(PyObject* value) { return PyArray_Check(value); }

bool is_numpy_scalar(PyObject* value) { return PyArray_IsScalar(value, Generic); }

bool is_exact_array(PyObject* array) { return PyArray_CheckExact(array); }

bool has_native_byte_order(PyObject* array) {
  return PyArray_ISNOTSWAPPED(reinterpret_cast<PyArrayObject*>(array));
}

size_t count_bytes(PyObject* array) {
  return PyArray_NBYTES(reinterpret_cast<PyArrayObject*>(array));
}

bool get_buffer_view(PyObject* array, BufferView* buffer) {
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  if (!PyArray_Check(array) || !PyArray_IS_C_CONTIGUOUS(typed)) {
    PyErr_Format(PyExc_TypeError,
                 "expected a C-contiguous NumPy array, got %s%s. Pass "
                 "numpy.ascontiguousarray(value).",
                 PyArray_Check(array) ? "an array with another memory layout"
                                      : "a value of type ",
                 PyArray_Check(array) ? "" : Py_TYPE(array)->tp_name);
    return false;
  }
  const auto found = std::find_if(
      std::begin(descriptors), std::end(descriptors), [typed](PyArray_Descr* descr) {
        return descr != nullptr && PyArray_EquivTypes(descr, PyArray_DESCR(typed));
      });
  if (found == std::end(descriptors)) {
    PyErr_Format(PyExc_TypeError,
                 "an array has dtype %R, for which XLA has no element type. Convert "
                 "the array to another dtype.",
                 PyArray_DESCR(typed));
    return false;
  }
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  *buffer = {static_cast<int>(found - std::begin(descriptors)),
             reinterpret_cast<const int64_t*>(PyArray_DIMS(typed)), PyArray_NDIM(typed),
             PyArray_DATA(typed)};
  return true;
}

size_t size_bytes(const BufferView& buffer) {
  PyArray_Descr* descr = descriptor(buffer.dtype);
  size_t bytes = descr == nullptr ? 0 : PyDataType_ELSIZE(descr);
  for (int64_t i = 0; i < buffer.rank; ++i) bytes *= buffer.dims[i];
  return bytes;
}

size_t memory_bytes(const BufferView& buffer) {
  const size_t bytes = size_bytes(buffer);
  return is_packed(buffer) ? (bytes * element_bits(buffer.dtype) + 7) / 8 : bytes;
}

bool is_packed(const BufferView& buffer) {
  return buffer.shares_bytes && element_bits(buffer.dtype) < 8;
}

PyObject* make_zeros(const BufferView& buffer) {
  PyObject* array = allocate_array(buffer);
  if (array == nullptr) return nullptr;
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  std::memset(PyArray_DATA(typed), 0, size_bytes(buffer));
  return array;
}

PyObject* make_array_view(const BufferView& buffer, bool writable) {
  // XLA passes null for empty buffers, for which NumPy would allocate memory.
  static char empty[16];
  PyObject* array = new_array(buffer, buffer.data == nullptr ? empty : buffer.data);
  if (array != nullptr && !writable) {
    PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(array), NPY_ARRAY_WRITEABLE);
  }
  return array;
}

bool is_intact_view(PyObject* array, const BufferView& buffer) {
  auto* view = reinterpret_cast<PyArrayObject*>(array);
  return PyArray_DESCR(view) == descriptor(buffer.dtype) &&
         has_same_shape(view, buffer) && PyArray_IS_C_CONTIGUOUS(view);
}

PyObject* make_array_copy(const BufferView& buffer) {
  PyObject* array = allocate_array(buffer);
  if (array == nullptr) return nullptr;
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  copy_to_array(buffer, PyArray_DATA(typed));
  PyArray_CLEARFLAGS(typed, NPY_ARRAY_WRITEABLE);
  return array;
}

void set_writable(PyObject* array) {
  PyArray_ENABLEFLAGS(reinterpret_cast<PyArrayObject*>(array), NPY_ARRAY_WRITEABLE);
}

bool refill(PyObject* array, const BufferView& buffer) {
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  const auto* fields = reinterpret_cast<const PyArrayObject_fields*>(array);
  constexpr int kFlagsOfCopy = NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS;
  if (!is_sole_reference(array) || fields->weakreflist != nullptr ||
      fields->descr != descriptor(buffer.dtype) ||
      (fields->flags & (kFlagsOfCopy | NPY_ARRAY_WRITEABLE)) != kFlagsOfCopy ||
      !has_same_shape(typed, buffer)) {
    return false;
  }
  copy_to_array(buffer, fields->data);
  return true;
}

int store_exact(PyObject* value, const BufferView& buffer) {
  PyArray_Descr* descr = descriptor(buffer.dtype);
  if (descr == nullptr) return 0;
  if (is_packed(buffer)) {
    std::vector<uint8_t> elements(std::max<size_t>(size_bytes(buffer), 1));
    const BufferView unpacked{buffer.dtype, buffer.dims, buffer.rank, elements.data()};
    const int status = store_exact(value, unpacked);
    if (status == 1) pack(elements.data(), buffer);
    return status;
  }
  // A subclass such as a masked array is handled by the callback's Python side.
  if (PyArray_CheckExact(value)) {
    auto* array = reinterpret_cast<PyArrayObject*>(value);
    if (!has_same_shape(array, buffer)) return 0;
    PyArray_Descr* observed = PyArray_DESCR(array);
    // Type numbers are equal for all byte orders.
    if (observed != descr &&
        !PyArray_EquivTypenums(observed->type_num, descr->type_num)) {
      return 0;
    }
    if (PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISNOTSWAPPED(array)) {
      if (const size_t bytes = size_bytes(buffer); bytes != 0) {
        copy_bytes(buffer.data, PyArray_DATA(array), bytes);
      }
      return 1;
    }
    // The array may have any memory order: NumPy copies it into a temporary view of the
    // buffer.
    PyObject* target = make_array_view(buffer, /*writable=*/true);
    if (target == nullptr) return -1;
    const int status =
        PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(target), array);
    Py_DECREF(target);
    return status == 0 ? 1 : -1;
  }
  // A fast path for NumPy's float64 scalar, which most functions of scalars return.
  if (Py_TYPE(value) == &PyDoubleArrType_Type && descr->type_num == NPY_DOUBLE &&
      buffer.rank == 0) {
    *static_cast<double*>(buffer.data) = PyFloat_AS_DOUBLE(value);
    return 1;
  }
  if (PyArray_IsScalar(value, Generic)) {
    PyArray_Descr* observed = PyArray_DescrFromScalar(value);
    if (observed == nullptr) return -1;
    const bool same =
        buffer.rank == 0 && (observed == descr || PyArray_EquivTypes(observed, descr));
    Py_DECREF(observed);
    if (!same) return 0;
    if (PyTypeNum_ISUSERDEF(descr->type_num)) {
      const auto set_item = PyDataType_GetArrFuncs(descr)->setitem;
      return set_item(value, buffer.data, nullptr) == 0 ? 1 : -1;
    }
    PyArray_ScalarAsCtype(value, buffer.data);
    return 1;
  }
  return store_python_scalar(value, buffer, descr);
}

}  // namespace bellhop
