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
const ProgramCall& program_call(const XLA_FFI_CallFrame& frame);

// The table of the running program, published or not; null where there is none. For
// comparisons: a published table may go meanwhile.
const void* table_of(const XLA_FFI_CallFrame& frame);

// The published table that has the program of the frame's attribute `program`; null
// where the attribute or the table is missing. For handlers without a table among
// their operands. For comparisons: the table may go meanwhile.
const void* find_table_of_program(const XLA_FFI_CallFrame& frame);

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
