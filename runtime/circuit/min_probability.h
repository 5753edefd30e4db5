// circuit/min_probability.h: what is too unlikely to be.
#pragma once

namespace bellhop {

// What is less likely than this does not happen: in double precision it is no more than
// the error of the state.
constexpr double kMinProbability = 1e-15;

}  // namespace bellhop
