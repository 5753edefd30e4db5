// callbacks/lookup.cc: the callback that a custom call names.
#include "callbacks/lookup.h"

#include <string>

namespace bellhop {
const void* table_of(const XLA_FFI_CallFrame& frame) {
  // The body of the handler makes an error of it.
  if (!has_handles(frame, 1)) return nullptr;
  const CallbackTable* const table = program_call(frame).table;
  return table != nullptr ? table
                          : CallbackTable::find_published_table(program_key(frame));
}

const std::shared_ptr<Callback>* shared_callback(const XLA_FFI_CallFrame& frame,
                                                 std::shared_ptr<Callback>& published) {
  const CallbackTable* const table = program_call(frame).table;
  const int64_t key = program_key(frame);
  const int64_t index = callback_index(frame);
  if (table != nullptr) return table->find(key, index);
  published = CallbackTable::find_published(key, index);
  return published == nullptr ? nullptr : &published;
}

XLA_FFI_Error* no_such_callback(const XLA_FFI_CallFrame& frame) {
  const auto& python = *static_cast<const XLA_FFI_ByteSpan*>(frame.attrs.attrs[2]);
  return error(
      frame.api,
      "bellhop: this process has no function for the callback '" +
          std::string(python.ptr, python.len) +
          "'. A program keeps the place of its Python functions, not the functions: "
          "they are those of the jax.jit function it was lowered from, which must be "
          "lowered in this process, and still be alive, when an exported or serialized "
          "program is run");
}

void append_device(const XLA_FFI_CallFrame& frame, Buffers& arguments,
                   int32_t* ordinal) {
  *ordinal = device_ordinal(frame);
  arguments.append({XLA_FFI_DataType_S32, nullptr, 0, ordinal});
}

}  // namespace bellhop
