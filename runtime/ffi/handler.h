// ffi/handler.h: XLA handlers made of functions, whose parameters are the binding.
//
// Pointers are states, attributes say their names, and what XLA has no other name for
// is an argument. XLA's own deduction knows no contexts, no optional arguments, and
// none that remain.
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

// A string as an argument of a template.
template <std::size_t kSize>
struct Name {
  constexpr Name(const char (&name)[kSize]) {  // NOLINT: as a literal is written
    std::copy_n(name, kSize, text);
  }
  char text[kSize];
};

// An attribute of the call, which is decoded as XLA's type for its own.
template <Name kName, typename T, typename Xla = T>
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

template <Name kName>
using Integer = Attribute<kName, std::int64_t>;
template <Name kName>
using Text = Attribute<kName, std::string_view>;
template <Name kName, typename T>
using List = Attribute<kName, std::span<const T>, ffi::Span<const T>>;

template <typename Param>
inline constexpr bool kIsAttribute = false;
template <Name kName, typename T, typename Xla>
inline constexpr bool kIsAttribute<Attribute<kName, T, Xla>> = true;

template <typename Param>
inline constexpr bool kIsResult = !std::is_void_v<typename ffi::RetBinding<Param>::Ret>;

template <typename Param>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

// Appends to a binding what a parameter stands for.
template <typename Param, typename Binding>
auto with_parameter(Binding&& binding) {
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

template <typename State, typename... Params>
auto* bound(ffi::ErrorOr<std::unique_ptr<State>> (*function)(Params...)) {
  return with_parameters<Params...>(ffi::Ffi::BindInstantiate()).To(function).release();
}

// For calls that name no table.
inline const void* find_no_table(const XLA_FFI_CallFrame& /*frame*/) { return nullptr; }

// The handler that a function is: its parameters are the binding. One that returns a
// state is the handler that makes it when a call is compiled. `kFindTable` returns the
// table that a frame names, or null.
template <auto kFunction, auto kFindTable = find_no_table>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {
  static auto* const bound_function = bound(kFunction);
  return jointly(frame, kFindTable, [&] { return bound_function->Call(frame); });
}

}  // namespace bellhop
