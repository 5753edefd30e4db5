// ffi/call_frame.h: read XLA's call frame without ffi::Binding.
//
// Decoding a call with ffi::Binding costs as much as the rest of a short handler.
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

// Views of the operands or results of a call, without XLA's token buffers, which hold
// no data.
class Buffers {
 public:
  // Views `buffers[begin]` to `buffers[end - 1]`, which must outlive this object.
  Buffers(void** buffers, int64_t begin, int64_t end) : views_(end + 1) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
      if (buffer.dtype == XLA_FFI_DataType_TOKEN) continue;
      views_[size_++] = {buffer.dtype, buffer.dims, buffer.rank, buffer.data,
                         /*shares_bytes=*/true};
    }
  }

  // Appends one view. There is memory for exactly one more than the constructor was
  // given.
  void append(const BufferView& view) { views_[size_++] = view; }

  std::span<const BufferView> span() { return {views_.data(), size_}; }

 private:
  SmallArray<BufferView, 8> views_;
  size_t size_ = 0;
};

// Returns whether a buffer is u32[2]: a handle, or the address of a callback table.
inline bool is_handle_buffer(const void* buffer) {
  const auto& given = *static_cast<const XLA_FFI_Buffer*>(buffer);
  return given.dtype == XLA_FFI_DataType_U32 && given.rank == 1 && given.dims[0] == 2;
}

// Returns whether the first `count` operands are handle buffers.
inline bool has_leading_handles(const XLA_FFI_CallFrame& frame, int64_t count) {
  if (frame.args.size < count) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (!is_handle_buffer(frame.args.args[i])) return false;
  }
  return true;
}

// Returns the i64 attribute at an index; XLA sorts attributes by name.
inline int64_t integer_attribute(const XLA_FFI_CallFrame& frame, int64_t place) {
  return *static_cast<const int64_t*>(
      static_cast<const XLA_FFI_Scalar*>(frame.attrs.attrs[place])->value);
}

// Returns XLA's identifier of the execution that the call is part of.
int64_t run_id(const XLA_FFI_CallFrame& frame);

// Returns the key by which calls of this execution are ordered, for OrderedScope; null
// in builds without ThreadSanitizer.
inline const void* run_order_key(const XLA_FFI_CallFrame& frame) {
  return kIsThreadSanitized ? run_order_key(run_id(frame)) : nullptr;
}

// Returns the index of the device that the program runs on.
int32_t device_ordinal(const XLA_FFI_CallFrame& frame);

// Lets Python handle pending signals. If a signal handler raises, cleans up the
// execution and returns the error; otherwise returns null.
XLA_FFI_Error* check_interrupts(const XLA_FFI_CallFrame& frame);

// Makes an XLA error (code INTERNAL) with a message. XLA owns the result.
XLA_FFI_Error* error(const XLA_FFI_Api* api, const std::string& message);

// Makes the error of a call whose operands or results do not match
// runtime/contract.toml.
XLA_FFI_Error* make_contract_error(const XLA_FFI_CallFrame& frame);

// Answers the metadata query that XLA sends to each handler when it is registered.
XLA_FFI_Error* answer_metadata_query(XLA_FFI_CallFrame* frame);

// Runs the body of a handler, unless the call is XLA's metadata query or a signal
// handler of Python raises first. Returns the error of the call, or null.
template <typename Body>
XLA_FFI_Error* run_handler(XLA_FFI_CallFrame* frame, Body&& body) {
  if (frame->extension_start != nullptr) return answer_metadata_query(frame);
  HandlerDetector::record_handler();
  const OrderedScope in_run(run_order_key(*frame));
  if (XLA_FFI_Error* interruption = check_interrupts(*frame)) return interruption;
  return body();
}

}  // namespace bellhop
