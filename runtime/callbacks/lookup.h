// callbacks/lookup.h: find the callback that a custom call names.
#pragma once

#include <cstdint>
#include <memory>

#include "callbacks/callback_table.h"
#include "callbacks/program_call.h"
#include "ffi/call_frame.h"
#include "ffi/joint_runs.h"

namespace bellhop {

// Returns the call of the running program, from the first operand; kNoCall if the
// program's table is published.
inline const ProgramCall& program_call(const XLA_FFI_CallFrame& frame) {
  return ProgramCall::from_operand(
      static_cast<XLA_FFI_Buffer*>(frame.args.args[0])->data);
}

// Return the attributes `index` and `program` of a custom call that names a callback.
// XLA sorts attributes by name: index, program, python.
inline int64_t callback_index(const XLA_FFI_CallFrame& frame) {
  return integer_attribute(frame, 0);
}
inline int64_t program_key(const XLA_FFI_CallFrame& frame) {
  return integer_attribute(frame, 1);
}

// Returns the table of the running program, published or not, or null. A published
// table may be destroyed meanwhile, so the result is only good for comparisons.
const void* find_table(const XLA_FFI_CallFrame& frame);

// Returns the published table that has the program of the frame's attribute `program`,
// or null if the attribute or the table is missing. For handlers without a table among
// their operands. A published table may be destroyed meanwhile, so the result is only
// good for comparisons.
const void* find_table_of_program(const XLA_FFI_CallFrame& frame);

// Runs the body of a handler whose attributes name a callback, as run_handler does. In
// a joint run, an error does not fail the call, so that no device waits for another
// (ffi/joint_runs.h).
template <typename Body>
XLA_FFI_Error* run_callback_handler(XLA_FFI_CallFrame* frame, Body&& body) {
  return run_jointly(frame, find_table, [&] { return run_handler(frame, body); });
}

// Returns the callback that the attributes name, or null. Searches the program's table
// or, if the program has none, the published tables. A published table may be destroyed
// meanwhile, so `published` then shares the callback. Needs no GIL.
const std::shared_ptr<Callback>* shared_callback(const XLA_FFI_CallFrame& frame,
                                                 std::shared_ptr<Callback>& published);

// Makes the error of a call whose callback does not exist in this process. XLA owns the
// result.
XLA_FFI_Error* make_missing_callback_error(const XLA_FFI_CallFrame& frame);

// Appends the index of the calling device to the arguments of a callback, as a scalar
// of 32 bits. Its value is written to `ordinal`, which must outlive `arguments`.
void append_device(const XLA_FFI_CallFrame& frame, Buffers& arguments,
                   int32_t* ordinal);

}  // namespace bellhop
