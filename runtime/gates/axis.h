// gates/axis.h: the kinds of rotations of one wire. Plain data, which the engine reads
// too.
#pragma once

#include <cstdint>

namespace bellhop {

// exp(-i phi P) for a Pauli matrix P, a phase exp(i phi) of the second amplitude, or a
// fixed matrix.
enum class Axis : std::uint8_t { kX, kY, kZ, kPhase, kFixed };

}  // namespace bellhop
