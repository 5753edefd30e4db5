// ffi/registry.h: the custom calls of the module, each known from where it is defined.
#pragma once

#include <vector>

#include "xla/ffi/api/c_api.h"

namespace bellhop {

// A custom call of runtime/contract.toml: a constant beside its handler. `instantiate`
// is null where it keeps no state of its own per compiled call.
struct Target {
  Target(const char* name, XLA_FFI_Handler* execute,
         XLA_FFI_Handler* instantiate = nullptr)
      : name(name), execute(execute), instantiate(instantiate) {
    all().push_back(this);
  }

  // In no order; constants of several files are made.
  static std::vector<const Target*>& all() {
    static auto& targets = *new std::vector<const Target*>;
    return targets;
  }

  const char* name;
  XLA_FFI_Handler* execute;
  XLA_FFI_Handler* instantiate;
};

}  // namespace bellhop
