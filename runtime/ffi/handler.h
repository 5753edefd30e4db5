// ffi/handler.h: make XLA handlers from functions, deriving the binding from the
// parameter types.
//
// A pointer parameter is the handler's state, an attribute type contains the
// attribute's name, and RunId, ThreadPool, RemainingArgs and RemainingRets are contexts
// or rest lists. XLA's own deduction supports neither contexts nor optional or
// remaining arguments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ffi/joint_runs.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

namespace ffi = xla::ffi;

// A string literal that can be a template argument.
template <std::size_t kSize>
struct StringLiteral {
  constexpr StringLiteral(
      const char (&name)[kSize]) {  // NOLINT: as a literal is written
    std::copy_n(name, kSize, text);
  }
  char text[kSize];
};

// A handler parameter that is the attribute `kName` of the call. XLA decodes it as type
// `Xla`, and the handler reads it as type `T`.
template <StringLiteral kName, typename T, typename Xla = T>
class Attribute {
 public:
  using Decoded = Xla;
  static constexpr const char* name() { return kName.text; }

  Attribute(const Xla& decoded) : value_(decoded.begin(), decoded.end()) {}  // NOLINT
  Attribute(const Xla& decoded)                                              // NOLINT
    requires std::is_same_v<T, Xla>
      : value_(decoded) {}

  operator T() const { return value_; }  // NOLINT
  T operator*() const { return value_; }

 private:
  T value_;
};

template <StringLiteral kName>
using Integer = Attribute<kName, std::int64_t>;
template <StringLiteral kName>
using Text = Attribute<kName, std::string_view>;
template <StringLiteral kName, typename T>
using List = Attribute<kName, std::span<const T>, ffi::Span<const T>>;

template <typename Param>
inline constexpr bool kIsAttribute = false;
template <StringLiteral kName, typename T, typename Xla>
inline constexpr bool kIsAttribute<Attribute<kName, T, Xla>> = true;

template <typename Param>
inline constexpr bool kIsResult = !std::is_void_v<typename ffi::RetBinding<Param>::Ret>;

template <typename Param>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

// Appends to an XLA binding the argument, result, attribute or context that the type
// `Param` denotes.
template <typename Param, typename Binding>
auto bind_parameter(Binding&& binding) {
  if constexpr (kIsAttribute<Param>) {
    return std::forward<Binding>(binding).template Attr<typename Param::Decoded>(
        Param::name());
  } else if constexpr (std::is_pointer_v<Param>) {
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

// Appends the bindings of several parameters, in order.
template <typename First, typename... Params, typename Binding>
auto bind_parameters(Binding&& binding) {
  if constexpr (sizeof...(Params) == 0) {
    return bind_parameter<First>(std::forward<Binding>(binding));
  } else {
    return bind_parameters<Params...>(
        bind_parameter<First>(std::forward<Binding>(binding)));
  }
}

// Binds a function that executes a call. The result is never freed: it lives as long as
// the process.
template <typename... Params>
auto* bind_function(ffi::Error (*function)(Params...)) {
  return bind_parameters<Params...>(ffi::Ffi::Bind()).To(function).release();
}

// Binds a function that creates the state of a compiled call (XLA's instantiate stage).
template <typename State, typename... Params>
auto* bind_function(ffi::ErrorOr<std::unique_ptr<State>> (*function)(Params...)) {
  return bind_parameters<Params...>(ffi::Ffi::BindInstantiate()).To(function).release();
}

// For calls that name no table.
inline const void* find_no_table(const XLA_FFI_CallFrame& /*frame*/) { return nullptr; }

// The XLA handler that decodes a call and invokes `kFunction`. If `kFunction` returns a
// state, it is the handler of the instantiate stage. In a joint run (ffi/joint_runs.h)
// an error of the function does not fail the call. `kFindTable` returns the table that
// a frame names, or null.
template <auto kFunction, auto kFindTable = find_no_table>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {
  static auto* const bound_handler = bind_function(kFunction);
  return run_jointly(frame, kFindTable, [&] { return bound_handler->Call(frame); });
}

}  // namespace bellhop
