// ffi/state_handler.h: handlers that make the state of a compiled call.
#pragma once

#include <memory>
#include <mutex>
#include <typeinfo>

#include "ffi/handler.h"
#include "ffi/tsan_annotations.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

template <typename State, typename... Params>
State state_of(ffi::ErrorOr<std::unique_ptr<State>> (*)(Params...));

// The handler that makes a state when a call is compiled, of which it makes the type
// known to XLA by its first call. That call is XLA's question for the handler's
// properties, in the middle of registering it. (jax.ffi.register_ffi_type would be too
// late: until the CPU client has started JAX puts registrations off, and then does
// those of types last.)
template <auto kPrepare>
XLA_FFI_Error* preparing(XLA_FFI_CallFrame* frame) {
  using State = decltype(state_of(kPrepare));
  static std::mutex mutex;
  {
    std::lock_guard lock(mutex);
    if (State::id == XLA_FFI_UNKNOWN_TYPE_ID) {
      XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<State>();
      info.deleter = [](void* state) {
        happens_after(state);  // it may never have been used
        happens_after(uses_of(state));
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
