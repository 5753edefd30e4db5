// interpreter/sole_reference.h: whether nobody else refers to a Python object.
#pragma once

#include <Python.h>

namespace bellhop {

// Whether the caller, who has a reference, has the only one.
//
// Without a GIL, Python counts the references that the thread of an object took apart
// from those that others took, until it merges the two. Others may be taking and
// dropping theirs, so the sum of both says nothing; this is true where one count says
// all. Where that cannot be told yet, it is false: a collection of garbage merges.
inline bool is_sole_reference(PyObject* object) {
#ifdef Py_GIL_DISABLED
  const uint32_t of_thread = _Py_atomic_load_uint32_relaxed(&object->ob_ref_local);
  const Py_ssize_t of_others = _Py_atomic_load_ssize_acquire(&object->ob_ref_shared);
  const Py_ssize_t count = of_others >> _Py_REF_SHARED_SHIFT;
  if ((of_others & _Py_REF_SHARED_FLAG_MASK) == _Py_REF_MERGED) return count == 1;
  return _Py_IsOwnedByCurrentThread(object) && of_thread == 1 && count == 0;
#else
  return Py_REFCNT(object) == 1;
#endif
}

}  // namespace bellhop
