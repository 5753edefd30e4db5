// ffi/call_frame.h: what handlers that read XLA's call frame themselves share.
//
// Decoding through ffi::Binding costs as much as the rest of such a handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "arrays/buffer_view.h"
#include "arrays/small_array.h"
#include "ffi/run_cleanup.h"
#include "ffi/tsan_annotations.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {

// Operands and results, without the tokens of ordered calls, which hold nothing.
class Buffers {
 public:
  Buffers(void** buffers, int64_t begin, int64_t end) : views_(end + 1) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
      if (buffer.dtype == XLA_FFI_DataType_TOKEN) continue;
      views_[size_++] = {buffer.dtype, buffer.dims, buffer.rank, buffer.data,
                         /*shares_bytes=*/true};
    }
  }

  // One more than there are; room for one is kept.
  void append(const BufferView& view) { views_[size_++] = view; }

  std::span<const BufferView> span() { return {views_.data(), size_}; }

 private:
  SmallArray<BufferView, 8> views_;
  size_t size_ = 0;
};

// Whether a buffer has the two words of a handle, or of a table's address.
inline bool is_handle_buffer(const void* buffer) {
  const auto& given = *static_cast<const XLA_FFI_Buffer*>(buffer);
  return given.dtype == XLA_FFI_DataType_U32 && given.rank == 1 && given.dims[0] == 2;
}

// Whether the first operands are handles, as many as that.
inline bool has_leading_handles(const XLA_FFI_CallFrame& frame, int64_t count) {
  if (frame.args.size < count) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (!is_handle_buffer(frame.args.args[i])) return false;
  }
  return true;
}

// The value of the attribute in this place; they are sorted by name.
inline int64_t integer_attribute(const XLA_FFI_CallFrame& frame, int64_t place) {
  return *static_cast<const int64_t*>(
      static_cast<const XLA_FFI_Scalar*>(frame.attrs.attrs[place])->value);
}

// A number that circuits of the same execution have too.
int64_t run_id(const XLA_FFI_CallFrame& frame);

// What the buffers of this run are ordered by, for InOrder.
inline const void* run_order_key(const XLA_FFI_CallFrame& frame) {
  return kIsThreadSanitized ? run_order_key(run_id(frame)) : nullptr;
}

// The number of the device that the program runs on.
int32_t device_ordinal(const XLA_FFI_CallFrame& frame);

// Lets Python handle signals. Where a handler raises, the run has failed: its error.
XLA_FFI_Error* check_interrupts(const XLA_FFI_CallFrame& frame);

XLA_FFI_Error* error(const XLA_FFI_Api* api, const std::string& message);

// The error of a call whose operands or results are not those of the contract.
XLA_FFI_Error* make_contract_error(const XLA_FFI_CallFrame& frame);

// What XLA asks of every handler once, when it is registered.
XLA_FFI_Error* answer_metadata_query(XLA_FFI_CallFrame* frame);

// Runs a handler's body, in the order of its run, where nothing ends the run before.
template <typename Body>
XLA_FFI_Error* run_handler(XLA_FFI_CallFrame* frame, Body&& body) {
  if (frame->extension_start != nullptr) return answer_metadata_query(frame);
  HandlerDetector::record_handler();
  const OrderedScope in_run(run_order_key(*frame));
  if (XLA_FFI_Error* interruption = check_interrupts(*frame)) return interruption;
  return body();
}

}  // namespace bellhop
