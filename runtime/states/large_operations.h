// states/large_operations.h: operations that go through the whole state: preparations,
// diagonals, and matrices on many qubits.
//
// Threading: the amplitudes are shared among the threads that the states were lent,
// each of which writes amplitudes and sums of its own. Sums do not depend on how many
// threads there are.
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

// Adds the derivatives by the operation's parameters, and takes the ket and the bras
// back through it; arguments as those of backward_by_tiles.
void go_back_large(const Operation& operation, const TiledProgram& program,
                   const States& states, const Ket& ket,
                   std::span<const Amplitudes> bras, double* jacobian,
                   std::size_t columns);

}  // namespace bellhop::engine
