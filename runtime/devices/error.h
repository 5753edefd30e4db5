// devices/error.h: what circuits throw.
#pragma once

#include <stdexcept>

namespace bellhop {

// What a user's program, or the compiler's code for it, got wrong. Its text is
// complete; anything else that is thrown comes from a plugin or the C++ library.
class CircuitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where outcomes are to be drawn.
inline constexpr const char* kNoProbabilities =
    "probabilities of outcomes are NaN. A parameter of the circuit is no number.";

}  // namespace bellhop
