// states/projections.h: apply and undo the projections of mid-circuit measurements in
// the engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circuit/session.h"
#include "states/states.h"

namespace bellhop::engine {

// Returns the squared norms of the two parts of the state in a lane in which the wire
// is 0 and 1.
std::array<double, 2> probabilities(const States& states, const Amplitudes& ket,
                                    std::int32_t wire, std::size_t lane = 0);

// Applies a projection in all lanes: (a0, a1) becomes (scale * a0, 0) for outcome 0 of
// one qubit. Appends the amplitudes that it removes to `removed`, unless null.
void project(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<std::byte>* removed);

// Undoes the last projection, with the amplitudes that it appended to `removed`.
void restore(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<std::byte>& removed);

// Applies the adjoint of a projection to a bra.
void apply_adjoint(const States& states, const Amplitudes& bra,
                   const Projection& projection);

}  // namespace bellhop::engine
