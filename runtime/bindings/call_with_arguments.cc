// bindings/call_with_arguments.cc: a call whose program reads its arguments through
// handlers.
#include "bindings/call_with_arguments.h"

#include <cstddef>
#include <utility>

#include "arrays/numpy_arrays.h"
#include "callbacks/callback_table.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {

using namespace nb::literals;

CallWithArguments::CallWithArguments(nb::object table, nb::list leaves)
    : table_(std::move(table)),
      leaves_(std::move(leaves)),
      call_{nb::cast<CallbackTable*>(table_), leaves_.ptr()} {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const nb::object leaf = leaves_[i];
    // A callback may write into the caller's array before a region reads it.
    if (is_array(leaf.ptr())) leaves_[i] = leaf.attr("copy")();
  }
}

PyObject* CallWithArguments::handle() const {
  const std::uint64_t place = address();
  const std::int64_t words = sizeof(place) / sizeof(std::uint32_t);
  return make_array_copy(
      {XLA_FFI_DataType_U32, &words, 1, const_cast<std::uint64_t*>(&place)});
}

void define_call_with_arguments(nb::module_& m) {
  nb::class_<CallWithArguments>(
      m, "CallWithArguments",
      "A call whose program reads its arguments through handlers.")
      .def(nb::init<nb::object, nb::list>(), "table"_a, "leaves"_a)
      .def_prop_ro("address", &CallWithArguments::address,
                   "The program's table operand; valid while this object lives.");
}

}  // namespace bellhop
