// engine/score.h: the derivative of how likely it was what a run has drawn.
#pragma once

#include <cstdint>
#include <span>

#include "circuit/session.h"

namespace bellhop::engine {

// Writes the derivatives of the logarithm of the probability of all outcomes and
// samples that were drawn since the circuit began, by its static-count parameters, if
// it `may_score` (engine_dispatch.h). Those by the dynamic-count ones are kept by the
// session, under the number that is returned.
std::int32_t score(Session& session, std::span<double> result);

}  // namespace bellhop::engine
