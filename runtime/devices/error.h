// devices/error.h: the exception that circuits throw.
#pragma once

#include <stdexcept>

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

// The error of a mid-circuit measurement or of sampling.
inline constexpr const char* kNoProbabilities =
    "the probabilities of outcomes are NaN. A circuit parameter is NaN or infinite.";

}  // namespace bellhop
