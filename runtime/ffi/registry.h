// ffi/registry.h: the list of all custom-call targets, each declared in the file of its
// handler.
#pragma once

#include <vector>

#include "xla/ffi/api/c_api.h"

namespace bellhop {

// A custom-call target of runtime/contract.toml, declared as a constant next to its
// handler. Its constructor adds it to `all()`. `instantiate` is null if the target has
// no state per compiled call.
struct Target {
  Target(const char* name, XLA_FFI_Handler* execute,
         XLA_FFI_Handler* instantiate = nullptr)
      : name(name), execute(execute), instantiate(instantiate) {
    all().push_back(this);
  }

  // Returns all targets. The order is unspecified: static constants of different files
  // are initialised in any order.
  static std::vector<const Target*>& all() {
    static auto& targets = *new std::vector<const Target*>;
    return targets;
  }

  const char* name;
  XLA_FFI_Handler* execute;
  XLA_FFI_Handler* instantiate;
};

}  // namespace bellhop
