// callbacks/program_call.h: what the first operand of a program's custom calls says.
#pragma once

#include <Python.h>

#include <cstring>

namespace bellhop {

class CallbackTable;

// Whose callbacks a running program calls, and what it was called with: a list of
// arrays, or null where no program of the table asks for them.
struct ProgramCall {
  CallbackTable* table = nullptr;
  PyObject* arguments = nullptr;

  // What is at the address that an operand holds; nothing for that of a published
  // table, which is zero.
  static const ProgramCall& from_operand(const void* operand);
};

inline constexpr ProgramCall kNoCall;

inline const ProgramCall& ProgramCall::from_operand(const void* operand) {
  const ProgramCall* call = nullptr;
  std::memcpy(&call, operand, sizeof(call));
  return call == nullptr ? kNoCall : *call;
}

}  // namespace bellhop
