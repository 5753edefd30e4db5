// kernels/kernels.h: the interface of the engine's kernels.
#pragma once

#include "gates/pauli_bits.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// Identifies the program and the parameters whose matrices are in a Scratch.
struct Prepared {
  const Operation* operations = nullptr;
  const double* parameters = nullptr;
  std::size_t stride = 0;
};

// Matrices on up to this many qubits are applied to whole registers. Larger ones are
// applied to one amplitude after another if a target qubit is within a register.
constexpr std::size_t kMostTableTargets = 5;

// Returns how many numbers a matrix needs in Scratch::gathered.
constexpr std::size_t gathered_numbers(std::size_t targets, bool is_constant) {
  const std::size_t dimension = std::size_t{1} << targets;
  if (targets <= kMostTableTargets) return 2 * dimension * (1 + 2 * dimension);
  return 2 * dimension * (is_constant ? 1 : 1 + dimension);
}

// Memory of one thread for the operations of an iteration.
struct Scratch {
  double* angles = nullptr;  // of all factors
  double* cosines = nullptr;
  double* sines = nullptr;
  double* matrices = nullptr;  // 8 numbers for each operation, 16 where kets move
  // For a matrix: 2 * 2^targets gathered amplitudes, then 2 * 4^targets entries if
  // these are parameters, then 2 * 4^targets elements for the table of a small matrix;
  // each element is one double per lane.
  void* gathered = nullptr;
  Prepared* prepared = nullptr;
  // Cache lines that the caller will read next: they are requested between operations,
  // so that the processor waits for the memory while it computes.
  const void* const* ahead = nullptr;
  std::size_t n_ahead = 0;
};

// The kernels for one instruction set and precision. Arrays have one number per
// element, or one for each lane if rows are in lanes.
struct Sweeps {
  // The number of lanes of a register.
  std::size_t lanes;

  // Applies the segments, in order, to `ket`.
  void (*forward)(const Layout&, const Segment*, std::size_t n, const Ket& ket,
                  const Scratch&);
  // Undoes the segments on `ket` and on the bras. For each bra, adds the derivative of
  // 2 Re <bra|ket> with respect to the parameter in column c to jacobian[bra * columns
  // + c]. If rows are in lanes, the Jacobian of the row in lane l begins at l *
  // row_size; lanes from `rows` on are ignored. If the ket has a tangent, each bra is
  // followed by its tangent, which counts as a bra: its row receives the derivative,
  // along the direction, of the bra's derivatives.
  void (*backward)(const Layout&, const Segment*, std::size_t n, const Ket& ket,
                   const Amplitudes* bras, std::size_t n_bras, double* jacobian,
                   std::size_t columns, std::size_t row_size, std::size_t rows,
                   const Scratch&);
  // Computes into += coefficient * P ket, with one coefficient, or one for each lane.
  void (*add_word)(const Layout&, const PauliBits&, const double* coefficient,
                   const Amplitudes& into, const Amplitudes& ket);
  // Writes Re <bra|P|ket>, once or for each lane.
  void (*word_overlap)(const Layout&, const PauliBits&, const Amplitudes& bra,
                       const Amplitudes& ket, double* out);
  // Applies a matrix on more than kMostTableTargets qubits of a state without rows in
  // lanes, to the amplitudes with `(index & mask) == value`. `entries` are as in an
  // Operation of kind kMatrix. Of the values of all other qubits, a power of two, only
  // `count` values from `first` on are processed. `memory`, aligned as a state, has
  // wide_matrix_bytes(targets) bytes.
  void (*apply_wide_matrix)(std::size_t qubits, const std::uint8_t* bits,
                            std::size_t targets, std::uint64_t mask,
                            std::uint64_t value, const double* entries, bool is_adjoint,
                            const Amplitudes& state, std::size_t first,
                            std::size_t count, void* memory);
  std::size_t (*wide_matrix_bytes)(std::size_t targets);
  // Writes the cosines and sines of `count` angles. `count` must be a multiple of 16.
  void (*turn)(const double* angles, std::size_t count, double* cosines, double* sines);

  // Applies a matrix, which need not be unitary, to qubits. `entries` are as in an
  // Operation of kind kMatrix, and equal for all rows.
  void (*apply_matrix)(const Layout&, const std::uint8_t* bits, std::size_t targets,
                       const double* entries, const Amplitudes& state, const Scratch&);
};

// Returns the kernels for the fastest instruction set that this processor supports.
const Sweeps& sweeps(Precision precision);

}  // namespace bellhop::engine
