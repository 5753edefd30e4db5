// devices/checked_size.h: compute the sizes of a program's data without overflow.
//
// A saved file may contain any module, so attributes, operand values and buffer
// dimensions are hostile input. Every size that is computed from them before memory is
// accessed uses these functions, which throw CircuitError if the result does not fit
// into std::size_t. `what` names the quantity in the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "devices/error.h"

namespace bellhop {

[[noreturn]] inline void throw_too_large(const char* what) {
  throw CircuitError(std::string(what) +
                     ": expected a size that fits into 64 bits, got a larger one." +
                     kDamaged);
}

inline std::size_t checked_product(std::size_t a, std::size_t b, const char* what) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) [[unlikely]]
    throw_too_large(what);
  return product;
}

inline std::size_t checked_sum(std::size_t a, std::size_t b, const char* what) {
  std::size_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) [[unlikely]]
    throw_too_large(what);
  return sum;
}

// Returns count * 2 ** exponent.
inline std::size_t checked_shift(std::size_t count, std::size_t exponent,
                                 const char* what) {
  if (count != 0 &&
      (exponent >= 64 || count > (std::numeric_limits<std::size_t>::max() >> exponent)))
      [[unlikely]]
    throw_too_large(what);
  return exponent >= 64 ? 0 : count << exponent;
}

// Returns an integer of the program as a size, if it is between 0 and `most`.
inline std::size_t checked_size(std::int64_t value, std::size_t most,
                                const char* what) {
  if (value < 0 || static_cast<std::uint64_t>(value) > most) [[unlikely]] {
    throw CircuitError(std::string(what) + ": expected 0 to " + std::to_string(most) +
                       ", got " + std::to_string(value) + "." + kDamaged);
  }
  return static_cast<std::size_t>(value);
}

// Returns the number of elements of an XLA buffer, whose own element_count() overflows
// for hostile sizes.
template <typename Buffer>
std::size_t count_elements(const Buffer& buffer, const char* what) {
  std::size_t count = 1;
  bool is_too_large = false;
  for (const std::int64_t size : buffer.dimensions()) {
    if (size == 0) return 0;
    is_too_large |= __builtin_mul_overflow(count, size, &count);
  }
  if (is_too_large) [[unlikely]]
    throw_too_large(what);
  return count;
}

// Throws CircuitError unless a buffer has exactly the expected number of elements.
inline void expect_count(std::size_t expected, std::size_t given, const char* what) {
  if (expected == given) [[likely]]
    return;
  throw CircuitError(std::string(what) + ": expected " + std::to_string(expected) +
                     " elements, got " + std::to_string(given) + "." + kDamaged);
}

// Returns the `count` elements from index `first` on; throws CircuitError if the span
// is too short.
template <typename T>
std::span<T> checked_part(std::span<T> all, std::size_t first, std::size_t count,
                          const char* what) {
  if (first > all.size() || count > all.size() - first) [[unlikely]] {
    throw CircuitError(std::string(what) + ": expected " + std::to_string(count) +
                       " elements from element " + std::to_string(first) + " on, got " +
                       std::to_string(all.size()) + " elements in all." + kDamaged);
  }
  return all.subspan(first, count);
}

}  // namespace bellhop
