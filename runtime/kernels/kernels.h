// kernels/kernels.h: what the engine does for one instruction set.
#pragma once

#include "gates/pauli_bits.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// What the matrices in a scratch are of: of a program, at parameters that do not
// change.
struct Prepared {
  const Operation* operations = nullptr;
  const double* parameters = nullptr;
  std::size_t stride = 0;
};

// Matrices on at most so many qubits are applied to whole registers. Those on more are
// applied to one amplitude after another where a target is within a register.
constexpr std::size_t kMostTableTargets = 5;

// Of the numbers that a matrix needs, see Scratch.
constexpr std::size_t gathered_numbers(std::size_t targets, bool is_constant) {
  const std::size_t dimension = std::size_t{1} << targets;
  if (targets <= kMostTableTargets) return 2 * dimension * (1 + 2 * dimension);
  return 2 * dimension * (is_constant ? 1 : 1 + dimension);
}

// Memory of one thread for the operations of an iteration.
struct Scratch {
  double* angles = nullptr;  // those of all factors
  double* cosines = nullptr;
  double* sines = nullptr;
  double* matrices = nullptr;  // 8 numbers for each operation, 16 where kets move
  // 2 * 2^targets numbers of a matrix, 2 * 4^targets more if its entries are
  // parameters, and behind room for these as many for the table of a small one; each
  // has room for a double in every lane.
  void* gathered = nullptr;
  Prepared* prepared = nullptr;
};

// For amplitudes in one precision: an array of numbers with one or, where rows stand in
// lanes, so many lanes each.
struct Sweeps {
  std::size_t lanes;

  // Applies the segments in order.
  void (*forward)(const Layout&, const Segment*, std::size_t n, const Ket& ket,
                  const Scratch&);
  // Goes back through the segments: `ket` becomes what it was before them, and so do
  // the bras. Of each bra, the derivative of Re <bra|ket> * 2 by a parameter in column
  // c is added to jacobian[bra * columns + c]. With rows in lanes, the row in lane l
  // has its Jacobian l * row_size further; lanes from `rows` on are left out. If the
  // ket moves, each bra has its tangent behind it, as which it counts: the derivative
  // along the direction of a bra's derivatives stands in the tangent's row.
  void (*backward)(const Layout&, const Segment*, std::size_t n, const Ket& ket,
                   const Amplitudes* bras, std::size_t n_bras, double* jacobian,
                   std::size_t columns, std::size_t row_size, std::size_t rows,
                   const Scratch&);
  // into += coefficient * P ket; coefficients are one for each lane, or one.
  void (*add_word)(const Layout&, const PauliBits&, const double* coefficient,
                   const Amplitudes& into, const Amplitudes& ket);
  // Re <bra|P|ket>, one for each lane, or one.
  void (*word_overlap)(const Layout&, const PauliBits&, const Amplitudes& bra,
                       const Amplitudes& ket, double* out);
  // Applies a matrix on more than kMostTableTargets qubits of a state of no rows in
  // lanes, to amplitudes whose index and `mask` is `value`: `entries` as those of an
  // Operation of kind kMatrix. Of the values of all other qubits, of which there are a
  // power of two, only those from `first` on. `memory`, aligned as a state, has
  // wide_matrix_bytes(targets).
  void (*apply_wide_matrix)(std::size_t qubits, const std::uint8_t* bits,
                            std::size_t targets, std::uint64_t mask,
                            std::uint64_t value, const double* entries, bool is_adjoint,
                            const Amplitudes& state, std::size_t first,
                            std::size_t count, void* memory);
  std::size_t (*wide_matrix_bytes)(std::size_t targets);
  // Sines and cosines of angles, in place of `count` numbers that are rounded up to a
  // multiple of 16.
  void (*turn)(const double* angles, std::size_t count, double* cosines, double* sines);

  // Applies a matrix on qubits, which need not be unitary: `entries` as those of an
  // Operation of kind kMatrix, the same for all rows.
  void (*apply_matrix)(const Layout&, const std::uint8_t* bits, std::size_t targets,
                       const double* entries, const Amplitudes& state, const Scratch&);
};

// Those of the fastest instruction set that this processor has.
const Sweeps& sweeps(Precision precision);

}  // namespace bellhop::engine
