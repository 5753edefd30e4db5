// ffi/registry.h: what a family of handlers offers to the module.
#pragma once

#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace bellhop {

// One custom-call target of runtime/contract.toml. `instantiate` is null where
// the target keeps no state of its own per compiled call.
struct Target {
  const char* name;
  XLA_FFI_Handler* instantiate;
  XLA_FFI_Handler* execute;
};

std::vector<Target> callback_targets();
std::vector<Target> tap_targets();
std::vector<Target> progress_targets();
std::vector<Target> circuit_targets();

}  // namespace bellhop
