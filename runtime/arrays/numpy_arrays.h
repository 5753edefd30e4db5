// arrays/numpy_arrays.h: XLA buffers as NumPy arrays, and NumPy results back into
// them.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "arrays/buffer_view.h"

namespace bellhop {

// Imports NumPy. Called once, with the GIL held. False with a Python error set.
bool init_numpy();

// Names the NumPy dtype of an XLA element type; called while the module loads.
void set_dtype(int xla_dtype, PyObject* descr);

// Null for an element type without a NumPy dtype.
PyObject* numpy_dtype(int xla_dtype);

bool is_array(PyObject* value);

// Describes the memory of a C-contiguous array; false with a Python error set for a
// dtype that XLA has no element type for. The dimensions are the array's.
bool get_buffer_view(PyObject* array, BufferView* buffer);

// As an array, which has a byte for each element that is narrower.
size_t size_bytes(const BufferView& buffer);

// The bytes of the buffer itself.
size_t memory_bytes(const BufferView& buffer);

// Whether no array can be a view of it.
bool is_packed(const BufferView& buffer);

// A writable array of zeros of the buffer's shape and type, in memory of its own. New
// reference; null with a Python error set.
PyObject* make_zeros(const BufferView& buffer);

// An array that is a view of the buffer, which is not packed, likewise.
PyObject* make_array_view(const BufferView& buffer, bool writable);

// Whether `array_view` would make such an array of the buffer: nobody has changed its
// shape, its dtype or its strides.
bool is_intact_view(PyObject* array, const BufferView& buffer);

// A read-only array with a copy of the buffer, likewise.
PyObject* make_array_copy(const BufferView& buffer);

void set_writable(PyObject* array);

// Fills an array that `array_copy` made with the contents of another buffer. False
// where someone else holds it, or changed it, or the buffer is of another type.
bool refill(PyObject* array, const BufferView& buffer);

// Stores `value` where its dtype and shape are the buffer's already (or it is a
// Python scalar that the dtype takes without loss of kind, and holds). Returns 1 if
// stored, 0 if `value` is something else, -1 with a Python error set.
int store_exact(PyObject* value, const BufferView& buffer);

}  // namespace bellhop
