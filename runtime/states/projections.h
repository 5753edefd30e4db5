// states/projections.h: what measuring a wire does to states of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "circuit/session.h"
#include "states/states.h"

namespace bellhop::engine {

// The squared norms of a state's parts with the wire in 0 and in 1. It has no rows in
// lanes, and neither have those below.
std::array<double, 2> probabilities(const States& states, const Amplitudes& ket,
                                    std::int32_t wire);

// Projects a state on an outcome, and multiplies it as the projection says. What that
// removes is put at the end of `removed`, if there is such.
void project(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<double>* removed);

// Brings back the state from before the projection, with what was removed last.
void restore(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<double>& removed);

// Applies the adjoint of the projection.
void apply_adjoint(const States& states, const Amplitudes& bra,
                   const Projection& projection);

}  // namespace bellhop::engine
