// ffi/call_frame.cc: reading XLA's call frame.
#include "ffi/call_frame.h"

#include <cstring>

#include "circuit/session.h"
#include "interpreter/signals.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

int64_t run_id(const XLA_FFI_CallFrame& frame) {
  // It fails for struct sizes of another version only, which registration rules out.
  XLA_FFI_RunId_Get_Args args{XLA_FFI_RunId_Get_Args_STRUCT_SIZE, nullptr, frame.ctx,
                              0};
  frame.api->XLA_FFI_RunId_Get(&args);
  return args.run_id;
}

const CallbackTable* table_of(const XLA_FFI_CallFrame& frame) {
  const CallbackTable* table = nullptr;
  std::memcpy(&table, static_cast<XLA_FFI_Buffer*>(frame.args.args[0])->data,
              sizeof(table));
  return table;
}

const std::shared_ptr<Callback>* shared_callback(const XLA_FFI_CallFrame& frame,
                                                 std::shared_ptr<Callback>& published) {
  const CallbackTable* table = table_of(frame);
  const int64_t key = program_key(frame);
  const int64_t index = callback_index(frame);
  if (table != nullptr) return table->find(key, index);
  published = CallbackTable::find_published(key, index);
  return published == nullptr ? nullptr : &published;
}

int32_t device_ordinal(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_DeviceOrdinal_Get_Args args{XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE,
                                      nullptr, frame.ctx, 0};
  frame.api->XLA_FFI_DeviceOrdinal_Get(&args);
  return args.device_ordinal;
}

void append_device(const XLA_FFI_CallFrame& frame, Buffers& arguments,
                   int32_t* ordinal) {
  *ordinal = device_ordinal(frame);
  arguments.append({XLA_FFI_DataType_S32, nullptr, 0, ordinal});
}

XLA_FFI_Error* interrupted(const XLA_FFI_CallFrame& frame) {
  try {
    check_signals();
    return nullptr;
  } catch (const Interrupted& interruption) {
    release_run(run_id(frame));
    return error(frame.api, interruption.what());
  }
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

XLA_FFI_Error* error(const XLA_FFI_Api* api, const std::string& message) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr,
                                 message.c_str(), XLA_FFI_Error_Code_INTERNAL};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* describe_handler(XLA_FFI_CallFrame* frame) {
  static const auto* described =
      xla::ffi::Ffi::Bind().To([] { return xla::ffi::Error::Success(); }).release();
  return described->Call(frame);
}

}  // namespace bellhop
