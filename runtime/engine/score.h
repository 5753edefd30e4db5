// engine/score.h: the derivative of how likely it was what a run has drawn.
#pragma once

#include <span>

#include "circuit/session.h"

namespace bellhop::engine {

// Writes the derivatives of the logarithm of the probability of all outcomes and
// samples that were drawn since the circuit began, by its static-count parameters, if
// it `may_score` (choice.h).
void score(Session& session, std::span<double> result);

}  // namespace bellhop::engine
