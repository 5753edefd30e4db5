// states/large_operations.h: operations that go through the whole state: preparations,
// diagonals, and matrices on many qubits.
//
// Threading: the helper threads of the states process disjoint amplitudes, and each
// part has separate sums. Sums do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/operation.h"
#include "states/states.h"
#include "states/tiled_program.h"

namespace bellhop::engine {

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
