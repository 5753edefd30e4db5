// circuit/binomial.h: exact samples of binomial distributions.
#pragma once

#include <cstdint>

#include "circuit/random_numbers.h"

namespace bellhop {

// Draws how many of `trials` succeed if each succeeds with this probability: with 10
// trials and 0.5, mostly 3 to 7. The time does not grow with the number of trials. The
// probability must be in [0, 1]. `numbers` advances.
std::uint64_t draw_binomial(std::uint64_t trials, double probability,
                            NumberSequence& numbers);

}  // namespace bellhop
