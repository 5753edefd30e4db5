// bindings/call_with_arguments.cc: what a program is called with, for its regions.
#include "bindings/call_with_arguments.h"

#include <utility>

#include "arrays/numpy_arrays.h"
#include "callbacks/callback_table.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {

using namespace nb::literals;

CallWithArguments::CallWithArguments(nb::object table, nb::list arguments)
    : table_(std::move(table)),
      arguments_(std::move(arguments)),
      call_{nb::cast<CallbackTable*>(table_), arguments_.ptr()} {}

PyObject* CallWithArguments::begin(const FastCall& fast, PyObject* args,
                                   PyObject* kwargs) {
  const nb::object both =
      kwargs == nullptr ? nb::borrow(args) : nb::steal(PyTuple_Pack(2, args, kwargs));
  if (!both.is_valid()) return nullptr;
  const nb::object flat =
      nb::steal(PyObject_CallOneArg(fast.flatten.ptr(), both.ptr()));
  if (!flat.is_valid()) return nullptr;
  table_ = fast.table;
  arguments_ = nb::borrow(PyTuple_GET_ITEM(flat.ptr(), 0));
  PyObject* const leaves = arguments_.ptr();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); ++i) {
    const nb::handle leaf = PyList_GET_ITEM(leaves, i);
    if (!leaf.type().is(fast.numpy_arrays)) continue;
    // A callback of the program may write into it before a region takes it.
    PyObject* const copy = PyObject_CallMethod(leaf.ptr(), "copy", nullptr);
    if (copy == nullptr || PyList_SetItem(leaves, i, copy) != 0) return nullptr;
  }
  call_ = {nb::inst_ptr<CallbackTable>(table_), leaves};
  std::uint64_t place = address();
  const std::int64_t words = sizeof(place) / sizeof(std::uint32_t);
  return array_copy({XLA_FFI_DataType_U32, &words, 1, &place});
}

void define_call_with_arguments(nb::module_& m) {
  nb::class_<CallWithArguments>(m, "CallWithArguments",
                                "A call whose program asks for its arguments.")
      .def(nb::init<nb::object, nb::list>(), "table"_a, "arguments"_a)
      .def_prop_ro("address", &CallWithArguments::address,
                   "What the program takes as its table; valid while this lives.");
}

}  // namespace bellhop
