// states/sampling.h: samples of states of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "states/states.h"

namespace bellhop::engine {

// Draws `shots` samples of the state in a lane. A sample is the index of an amplitude,
// whose highest bit is that of the first wire: for (|00> + |11>) / sqrt(2), 0 or 3. The
// state need not be normalized.
std::vector<std::uint32_t> draw(const States& states, const Amplitudes& ket,
                                std::size_t lane, std::size_t shots,
                                std::mt19937& generator);

}  // namespace bellhop::engine
