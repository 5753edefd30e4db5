// states/large_operations.h: operations that go through the whole state: preparations,
// diagonals, and matrices on many qubits.
//
// Threading: the helper threads of the states process disjoint amplitudes, and each
// part has separate sums. Sums do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/operation.h"
#include "states/given_amplitudes.h"
#include "states/states.h"
#include "states/tiled_program.h"

namespace bellhop::engine {

// Returns the amplitudes of an operation that prepares all qubits, if the program gives
// them in the order of the state's indices.
std::optional<GivenAmplitudes> all_in_order(const Operation& operation,
                                            const TiledProgram& program,
                                            const States& states);
// Writes the first `count` amplitudes of a state, a power of two.
void write_in_order(const GivenAmplitudes& given, std::size_t count,
                    const States& states, const Amplitudes& state);

// Applies an operation of a program to a state, and to its tangent if it has one.
void apply_large(const Operation& operation, const TiledProgram& program,
                 const States& states, const Ket& ket);

// Adds the derivatives with respect to the operation's parameters to the Jacobian, and
// applies the operation's inverse to the ket and the bras. The arguments are the same
// as for backward_by_tiles.
void go_back_large(const Operation& operation, const TiledProgram& program,
                   const States& states, const Ket& ket,
                   std::span<const Amplitudes> bras, double* jacobian,
                   std::size_t columns);

}  // namespace bellhop::engine
