// devices/error.h: the exception that circuits throw.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace bellhop {

// An error in a user's program, or in the compiler's code for it, with a complete
// message. Other exceptions come from a plugin or from the C++ library.
class CircuitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The end of an error for attributes or operands that the compiler does not write.
inline constexpr const char* kDamaged =
    " The program is damaged, or was not compiled by Bellhop. Compile it again, or "
    "report this as a bug in Bellhop.";

// Describes the allowed values of an index into `count` elements, for an error.
inline std::string describe_indices(std::int64_t count) {
  return count > 0 ? "expected 0 to " + std::to_string(count - 1) : "there is none";
}

// The error of a mid-circuit measurement or of sampling.
inline constexpr const char* kNoProbabilities =
    "the probabilities of outcomes are NaN. A circuit parameter is NaN or infinite.";

}  // namespace bellhop
