// ffi/state_handler.h: handlers that create the state of a compiled call.
#pragma once

#include <memory>
#include <mutex>
#include <typeinfo>

#include "ffi/handler.h"
#include "ffi/tsan_annotations.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

// For deducing the type of a state.
template <typename State, typename... Params>
State deduce_state(ffi::ErrorOr<std::unique_ptr<State>> (*)(Params...));

// The XLA handler that creates the state of a compiled call with `kPrepare`. Its first
// call registers the type of the state with XLA. That call is the metadata query that
// XLA sends when the handler is registered. (jax.ffi.register_ffi_type would be too
// late: until the CPU client has started, JAX defers registrations, and then registers
// types last.)
template <auto kPrepare>
XLA_FFI_Error* register_and_instantiate(XLA_FFI_CallFrame* frame) {
  using State = decltype(deduce_state(kPrepare));
  static std::mutex mutex;
  {
    std::lock_guard lock(mutex);
    if (State::id == XLA_FFI_UNKNOWN_TYPE_ID) {
      XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<State>();
      info.deleter = [](void* state) {
        happens_after(state);  // the state may never have been used
        happens_after(use_order_key(state));
        delete static_cast<State*>(state);
      };
      XLA_FFI_Error* error =
          ffi::Ffi::RegisterTypeId(frame->api, typeid(State).name(), &State::id, info);
      if (error != nullptr) return error;
    }
  }
  return handler<kPrepare>(frame);
}

}  // namespace bellhop
