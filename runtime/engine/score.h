// engine/score.h: the score function, which is the derivative of the logarithm of the
// probability of an execution's samples and outcomes.
#pragma once

#include <cstdint>
#include <span>

#include "circuit/session.h"

namespace bellhop::engine {

// Writes the derivatives, with respect to the static-count parameters, of the logarithm
// of the probability of all outcomes and samples that were drawn since the circuit
// began. `may_score` (engine_dispatch.h) must hold. Stores the derivatives with respect
// to the dynamic-count parameters in the session, and returns their index.
std::int32_t score(Session& session, std::span<double> result);

}  // namespace bellhop::engine
