// states/draws.h: samples of states of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "states/states.h"

namespace bellhop::engine {

// So many samples of the state in a lane, as indices of amplitudes: the highest bit is
// that of the first wire. The state need not be normalized.
std::vector<std::uint32_t> draw(const States& states, const Amplitudes& ket,
                                std::size_t lane, std::size_t shots,
                                std::mt19937& generator);

}  // namespace bellhop::engine
