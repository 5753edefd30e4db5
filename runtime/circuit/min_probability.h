// circuit/min_probability.h: the least probability of an outcome that may be drawn.
#pragma once

namespace bellhop {

// Outcomes with a smaller probability are treated as impossible: in double precision,
// this is the size of the state's rounding errors.
constexpr double kMinProbability = 1e-15;

}  // namespace bellhop
