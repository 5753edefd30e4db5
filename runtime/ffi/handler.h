// ffi/handler.h: XLA handlers made of functions, whose parameters are the binding.
//
// Pointers are states, and what XLA has no other name for is an argument. XLA's own
// deduction knows no contexts, no optional arguments, and none that remain.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace bellhop {

namespace ffi = xla::ffi;

template <typename Param>
inline constexpr bool kIsResult = !std::is_void_v<typename ffi::RetBinding<Param>::Ret>;

template <typename Param>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

// Appends to a binding what a parameter stands for.
template <typename Param, typename Binding>
auto with_parameter(Binding&& binding) {
  if constexpr (std::is_pointer_v<Param>) {
    return std::forward<Binding>(binding)
        .template Ctx<ffi::State<std::remove_pointer_t<Param>>>();
  } else if constexpr (std::is_same_v<Param, ffi::RunId> ||
                       std::is_same_v<Param, ffi::ThreadPool>) {
    return std::forward<Binding>(binding).template Ctx<Param>();
  } else if constexpr (std::is_same_v<Param, ffi::RemainingArgs>) {
    return std::forward<Binding>(binding).RemainingArgs();
  } else if constexpr (std::is_same_v<Param, ffi::RemainingRets>) {
    return std::forward<Binding>(binding).RemainingRets();
  } else if constexpr (kIsResult<Param>) {
    return std::forward<Binding>(binding)
        .template Ret<typename ffi::RetBinding<Param>::Ret>();
  } else if constexpr (kIsOptional<Param>) {
    return std::forward<Binding>(binding)
        .template OptionalArg<typename Param::value_type>();
  } else {
    return std::forward<Binding>(binding).template Arg<Param>();
  }
}

template <typename First, typename... Params, typename Binding>
auto with_parameters(Binding&& binding) {
  if constexpr (sizeof...(Params) == 0) {
    return with_parameter<First>(std::forward<Binding>(binding));
  } else {
    return with_parameters<Params...>(
        with_parameter<First>(std::forward<Binding>(binding)));
  }
}

template <typename... Params>
auto* bound(ffi::Error (*function)(Params...)) {
  return with_parameters<Params...>(ffi::Ffi::Bind()).To(function).release();
}

// The handler that a function without attributes is: its parameters are the binding.
template <auto kFunction>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {
  static auto* const bound_function = bound(kFunction);
  return bound_function->Call(frame);
}

}  // namespace bellhop
