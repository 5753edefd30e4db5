// ffi/call_frame.cc: read XLA's call frame without ffi::Binding.
#include "ffi/call_frame.h"

#include "ffi/run_cleanup.h"
#include "interpreter/signals.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

int64_t run_id(const XLA_FFI_CallFrame& frame) {
  // This fails only for struct sizes of another version of XLA, which registration
  // excludes.
  XLA_FFI_RunId_Get_Args args{XLA_FFI_RunId_Get_Args_STRUCT_SIZE, nullptr, frame.ctx,
                              0};
  frame.api->XLA_FFI_RunId_Get(&args);
  return args.run_id;
}

int32_t device_ordinal(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_DeviceOrdinal_Get_Args args{XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE,
                                      nullptr, frame.ctx, 0};
  frame.api->XLA_FFI_DeviceOrdinal_Get(&args);
  return args.device_ordinal;
}

XLA_FFI_Error* check_interrupts(const XLA_FFI_CallFrame& frame) {
  try {
    check_signals();
    return nullptr;
  } catch (const Interrupted& interruption) {
    release_run(run_id(frame));
    return error(frame.api, interruption.what());
  }
}

XLA_FFI_Error* error(const XLA_FFI_Api* api, const std::string& message) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr,
                                 message.c_str(), XLA_FFI_Error_Code_INTERNAL};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* make_contract_error(const XLA_FFI_CallFrame& frame) {
  return error(frame.api,
               "bellhop: a custom call of the program has " +
                   std::to_string(frame.args.size) + " operands and " +
                   std::to_string(frame.rets.size) +
                   " results, whose number or types differ from the signatures in "
                   "runtime/contract.toml. The program is damaged, or was not compiled "
                   "by Bellhop. Compile it again, or report this as a bug in Bellhop.");
}

XLA_FFI_Error* answer_metadata_query(XLA_FFI_CallFrame* frame) {
  static const auto* described =
      xla::ffi::Ffi::Bind().To([] { return xla::ffi::Error::Success(); }).release();
  return described->Call(frame);
}

}  // namespace bellhop
