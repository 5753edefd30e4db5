// callbacks/lookup.h: the callback that a custom call names.
#pragma once

#include <cstdint>
#include <memory>

#include "callbacks/callback_table.h"
#include "callbacks/program_call.h"
#include "ffi/call_frame.h"
#include "ffi/joint_runs.h"

namespace bellhop {

// The call of the running program; nothing in it for one of a published table.
inline const ProgramCall& program_call(const XLA_FFI_CallFrame& frame) {
  return ProgramCall::of(static_cast<XLA_FFI_Buffer*>(frame.args.args[0])->data);
}

// Attributes are sorted by name: index, program, python.
inline int64_t callback_index(const XLA_FFI_CallFrame& frame) {
  return attribute(frame, 0);
}
inline int64_t program_key(const XLA_FFI_CallFrame& frame) {
  return attribute(frame, 1);
}

// The table of the running program, published or not; null where there is none. For
// comparisons: a published table may go meanwhile.
const void* table_of(const XLA_FFI_CallFrame& frame);

// Runs the body of a handler whose attributes name a callback: as handled, and so that
// no device waits for another device on which the body fails.
template <typename Body>
XLA_FFI_Error* handled_jointly(XLA_FFI_CallFrame* frame, Body&& body) {
  return jointly(frame, table_of, [&] { return handled(frame, body); });
}

// The callback that the attributes name, in the program's table or, where the program
// has none, the published one; null where there is none. A published table may go
// meanwhile, so `published` is a share of the callback then. Needs no GIL.
const std::shared_ptr<Callback>* shared_callback(const XLA_FFI_CallFrame& frame,
                                                 std::shared_ptr<Callback>& published);

XLA_FFI_Error* no_such_callback(const XLA_FFI_CallFrame& frame);

// Gives a callback the number of the device as its last argument; `ordinal` is where.
void append_device(const XLA_FFI_CallFrame& frame, Buffers& arguments,
                   int32_t* ordinal);

}  // namespace bellhop
