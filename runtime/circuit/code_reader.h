// circuit/code_reader.h: read the integers of a `code` attribute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "devices/error.h"

namespace bellhop {

// Reads a code attribute from its first integer to its last. Bellhop's compiler writes
// the code, so an error in it is a bug; it is checked because wrong code must not read
// invalid memory.
class CodeReader {
 public:
  // `what` names the object that the code describes in errors. Both arguments must
  // outlive the reader.
  CodeReader(const char* what, std::span<const std::int64_t> code)
      : what_(what), code_(code) {}

  // Returns whether all integers were read.
  bool done() const { return at_ == code_.size(); }

  // Reads the next integer; throws CircuitError at the end.
  std::int64_t next() {
    if (done()) fail("expected another integer, got the end of the attribute");
    return code_[at_++];
  }

  // Reads the next integer, which must be in [0, limit). `meaning` names it in the
  // error.
  std::int64_t next_below(std::int64_t limit, const char* meaning) {
    const std::int64_t value = next();
    if (value < 0 || value >= limit) fail_below(value, limit, meaning);
    return value;
  }

  // Reads the number of integers that follow, which is at most the number of remaining
  // integers.
  std::size_t next_count(const char* meaning) {
    return static_cast<std::size_t>(
        next_below(static_cast<std::int64_t>(code_.size() - at_), meaning));
  }

  // Reads the next `count` integers; throws CircuitError if there are fewer.
  std::vector<std::int64_t> take(std::size_t count) {
    if (count > code_.size() - at_) {
      fail("expected " + std::to_string(count) + " more integers, got " +
           std::to_string(code_.size() - at_));
    }
    const auto first = code_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += count;
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }

  // Throws CircuitError with the current position. Not inlined, nor is fail_below: GCC
  // 12 would warn of the concatenated strings (PR 105329).
  [[noreturn, gnu::noinline, gnu::cold]] void fail(const std::string& problem) const {
    throw CircuitError("attribute code of the " + std::string(what_) + ", integer " +
                       std::to_string(at_) + ": " + problem + "." + kDamaged);
  }

 private:
  // Throws CircuitError for an integer `value` that is not in [0, limit).
  [[noreturn, gnu::noinline, gnu::cold]] void fail_below(std::int64_t value,
                                                         std::int64_t limit,
                                                         const char* meaning) const {
    fail(std::string(meaning) + ": " + describe_indices(limit) + ", got " +
         std::to_string(value));
  }

  const char* what_;
  std::span<const std::int64_t> code_;
  std::size_t at_ = 0;
};

}  // namespace bellhop
