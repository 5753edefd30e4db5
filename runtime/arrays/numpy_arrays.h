// arrays/numpy_arrays.h: convert XLA buffers to NumPy arrays, and NumPy results back.
//
// All functions need the GIL.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "arrays/buffer_view.h"

namespace bellhop {

// Imports NumPy's C API. Called once. Returns false with a Python error set.
bool init_numpy();

// Sets the NumPy dtype of an XLA element type. `descr` is a numpy.dtype, to which a
// reference is kept until the process exits. Called while the module loads.
void set_dtype(int xla_dtype, PyObject* descr);

// Returns the NumPy dtype of an XLA element type (borrowed reference), or null if it
// has none.
PyObject* numpy_dtype(int xla_dtype);

// Returns whether a Python object is a NumPy array.
bool is_array(PyObject* value);

// Returns whether a Python object is a NumPy scalar, such as numpy.float32(1.5).
bool is_numpy_scalar(PyObject* value);

// Returns whether the type of a NumPy array is numpy.ndarray, and not a subclass.
bool is_exact_array(PyObject* array);

// Returns whether the elements of a NumPy array have the byte order of this machine.
bool has_native_byte_order(PyObject* array);

// Returns how many bytes the elements of a NumPy array take.
size_t count_bytes(PyObject* array);

// Describes the memory of a C-contiguous array; `dims` point into the array. Returns
// false with a Python error set if the array is not C-contiguous or XLA has no element
// type for its dtype.
bool get_buffer_view(PyObject* array, BufferView* buffer);

// Returns how many bytes a NumPy array with the buffer's shape and type takes. Each
// element narrower than a byte takes a byte there.
size_t size_bytes(const BufferView& buffer);

// Returns how many bytes the buffer itself takes. Elements narrower than a byte may be
// packed there.
size_t memory_bytes(const BufferView& buffer);

// Returns whether the buffer packs narrow elements, so that no NumPy array can be a
// view of it.
bool is_packed(const BufferView& buffer);

// Returns a writable array of zeros with the buffer's shape and type, in new memory.
// New reference; null with a Python error set.
PyObject* make_zeros(const BufferView& buffer);

// Returns an array that is a view of the buffer, which must not be packed. New
// reference; null with a Python error set.
PyObject* make_array_view(const BufferView& buffer, bool writable);

// Returns whether an array still has the shape, dtype and strides that
// `make_array_view` gave it.
bool is_intact_view(PyObject* array, const BufferView& buffer);

// Returns a read-only array with a copy of the buffer. New reference; null with a
// Python error set.
PyObject* make_array_copy(const BufferView& buffer);

// Makes an array writable.
void set_writable(PyObject* array);

// Overwrites an array of `make_array_copy` with another buffer. Returns false, without
// writing, if other references to the array exist, if its flags, shape or dtype were
// changed, or if the buffer has another type.
bool refill(PyObject* array, const BufferView& buffer);

// Stores `value` in the buffer if it is an array or NumPy scalar of the buffer's dtype
// and shape, or a Python scalar that the dtype represents without a change of kind or
// an overflow. Returns 1 if stored, 0 if `value` is something else, -1 with a Python
// error set.
int store_exact(PyObject* value, const BufferView& buffer);

}  // namespace bellhop
