// callbacks/program_call.h: the first operand of a program's custom calls.
#pragma once

#include <Python.h>

#include <cstring>

namespace bellhop {

class CallbackTable;

// The callback table of a running program, and the arguments of its call: a list of
// arrays, or null if no program of the table reads them.
struct ProgramCall {
  CallbackTable* table = nullptr;
  PyObject* arguments = nullptr;

  // Returns the call whose address an operand contains, or kNoCall if the address is
  // zero (a published table).
  static const ProgramCall& from_operand(const void* operand);
};

inline constexpr ProgramCall kNoCall;

inline const ProgramCall& ProgramCall::from_operand(const void* operand) {
  const ProgramCall* call = nullptr;
  std::memcpy(&call, operand, sizeof(call));
  return call == nullptr ? kNoCall : *call;
}

}  // namespace bellhop
