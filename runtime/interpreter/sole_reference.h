// interpreter/sole_reference.h: check whether a Python object has a single reference.
#pragma once

#include <Python.h>

namespace bellhop {

// Returns whether the caller's reference to an object is the only one.
//
// In a free-threaded Python, the references that the object's own thread took are
// counted separately from the references of other threads, until Python merges the two
// counts. Other threads may change their count meanwhile, so the sum proves nothing;
// the function returns true only if a single count suffices. Otherwise it returns
// false, and a garbage collection merges the counts.
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
