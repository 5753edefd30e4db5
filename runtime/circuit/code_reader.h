// circuit/code_reader.h: walks the integers of a `code` attribute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "devices/error.h"

namespace bellhop {

// Code is written by our compiler, so whatever is wrong with it is our bug; it is
// checked all the same, for a wrong table must not read memory that is not its.
class CodeReader {
 public:
  CodeReader(const char* what, std::span<const std::int64_t> code)
      : what_(what), code_(code) {}

  bool done() const { return at_ == code_.size(); }

  std::int64_t next() {
    if (done()) fail("ends in the middle of an entry");
    return code_[at_++];
  }

  std::int64_t next_below(std::int64_t limit, const char* meaning) {
    const std::int64_t value = next();
    if (value < 0 || value >= limit) {
      fail(std::string(meaning) + " is " + std::to_string(value) + ", expected 0 to " +
           std::to_string(limit - 1));
    }
    return value;
  }

  // A count of entries that follow, so never more than are left.
  std::size_t next_count(const char* meaning) {
    return static_cast<std::size_t>(
        next_below(static_cast<std::int64_t>(code_.size() - at_), meaning));
  }

  std::vector<std::int64_t> take(std::size_t count) {
    if (count > code_.size() - at_) fail("ends in the middle of an entry");
    const auto first = code_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += count;
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw CircuitError(std::string(what_) + " at entry " + std::to_string(at_) +
                       " of its code: " + problem +
                       ". This is a bug in Bellhop's compiler; please report it.");
  }

 private:
  const char* what_;
  std::span<const std::int64_t> code_;
  std::size_t at_ = 0;
};

}  // namespace bellhop
