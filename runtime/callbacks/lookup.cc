// callbacks/lookup.cc: find the callback that a custom call names.
#include "callbacks/lookup.h"

#include <string>
#include <string_view>

namespace bellhop {
const void* find_table(const XLA_FFI_CallFrame& frame) {
  // The handler's body reports the error.
  if (!has_leading_handles(frame, 1)) return nullptr;
  const CallbackTable* const table = program_call(frame).table;
  return table != nullptr ? table
                          : CallbackTable::find_published_table(program_key(frame));
}

const void* find_table_of_program(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Attrs& attributes = frame.attrs;
  for (int64_t place = 0; place < attributes.size; ++place) {
    const XLA_FFI_ByteSpan& name = *attributes.names[place];
    if (std::string_view(name.ptr, name.len) != "program") continue;
    // The instantiation of the handler has checked the attribute's type.
    return CallbackTable::find_published_table(integer_attribute(frame, place));
  }
  return nullptr;
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

XLA_FFI_Error* make_missing_callback_error(const XLA_FFI_CallFrame& frame) {
  const auto& python = *static_cast<const XLA_FFI_ByteSpan*>(frame.attrs.attrs[2]);
  return error(
      frame.api,
      "bellhop: the callback '" + std::string(python.ptr, python.len) +
          "' does not exist in this process. An exported or serialized program "
          "contains "
          "only references to its Python functions. Lower the jax.jit function that it "
          "was made from in this process, and keep that function alive while the "
          "program "
          "runs.");
}

void append_device(const XLA_FFI_CallFrame& frame, Buffers& arguments,
                   int32_t* ordinal) {
  *ordinal = device_ordinal(frame);
  arguments.append({XLA_FFI_DataType_S32, nullptr, 0, ordinal});
}

}  // namespace bellhop
