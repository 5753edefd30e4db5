// kernels/operation.h: the engine's representation of a circuit.
//
// Plain data, read by code that is compiled for several instruction sets.
//
// An amplitude's index has a bit for each qubit: bit 0 is the last wire. A *pair* is
// two amplitudes, `i` and `i ^ flips`, and an operation on pairs applies a 2x2 matrix
// to the pairs whose `i & mask` is `value`. This represents a gate on one wire (flips
// and mask are its bit, value is 0), a controlled gate (more bits in the mask), and
// SWAP and the excitations (several bits in flips). Without flips there are only second
// amplitudes, which are multiplied by a phase.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gates/axis.h"

namespace bellhop::engine {

// The most target qubits of a matrix: more than any state that fits into memory has.
constexpr std::size_t kMostTargets = 48;

// One of the gates on the same pairs that make up an operation, in order. Its angle phi
// is `scale` times a parameter.
struct Factor {
  using Kind = Axis;

  Kind kind = Kind::kFixed;
  double scale = 1;
  std::size_t slot = 0;  // index of the parameter in an iteration; unused for kFixed
  // kFixed: the matrix, row-major, and its rotation of the Bloch vector: U P U^-1 is
  // the sum over Q of bloch[3 * q + p] times Q.
  double real[4] = {1, 0, 0, 1};
  double imag[4] = {};
  double bloch[9] = {};
};

// A gate, several gates on the same pairs, or a preparation of the state.
struct Operation {
  enum class Kind : std::uint8_t {
    kPairs,
    kPairsThenFlip,  // a gate on one wire, and the CNOT after it that has this target
    kPauliRotation,  // exp(-i phi P) for a word P, by the one factor's scale and slot
    kMatrix,         // on several wires
    kState,          // instead of the zero state: amplitudes of some qubits
    kDiagonal        // exp(i phi) of an amplitude, by its index in some qubits
  };
  // Which entries of a pair's matrix may be nonzero, or how it is applied. kCross: the
  // diagonal is real and the other entries are imaginary.
  enum class Form : std::uint8_t { kGeneral, kReal, kCross, kDiagonal, kFlip };

  Kind kind = Kind::kPairs;
  Form form = Form::kGeneral;
  // kPairsThenFlip: the masks and values are the CNOT's, and the matrix acts on all
  // pairs. Its rows are exchanged where the CNOT's control has the required value.
  std::uint64_t flips = 0;
  std::uint64_t mask = 0;
  std::uint64_t value = 0;
  std::uint64_t signs = 0;  // kPauliRotation: wires with Y or Z
  unsigned y_factors = 0;   // and how many have Y
  std::size_t factor = 0;   // index of the first factor
  std::size_t factors = 0;
  // kMatrix, kState, kDiagonal: `bits` has the targets' bits of an amplitude's index;
  // the first target is the most significant bit of the index into the matrix, state or
  // diagonal. `entries` is the index of the first entry among the program's constants
  // (is_constant) or among the parameters of an iteration. Entries of a matrix or state
  // are real and imaginary parts in turn, entries of a real state (is_real) are real,
  // and entries of a diagonal are angles.
  const std::uint8_t* bits = nullptr;
  std::size_t targets = 0;
  bool is_constant = true;
  bool is_adjoint = false;
  bool is_real = false;
  std::size_t entries = 0;
  // For an operation on a tile, whose bits the members above refer to: the bits outside
  // of the tile that must equal `outer_value`, and those with Y or Z.
  std::uint64_t outer_mask = 0;
  std::uint64_t outer_value = 0;
  std::uint64_t outer_signs = 0;
};

// The operations of one iteration of a sequence of gates.
struct Program {
  const Operation* operations;
  std::size_t size;
  const Factor* factors;
  std::size_t n_factors;
  const double* constants;
  std::size_t parameters;  // number of parameters of an iteration
  std::size_t gathered;    // how many numbers its matrices need, see Scratch
};

// A program with its parameters, applied `iterations` times.
struct Segment {
  const Program* program;
  std::size_t iterations;
  const double* parameters;  // of the first row
  std::size_t stride;  // distance to the next row's parameters; 0: rows share them
  // The column of the derivative with respect to the first parameter; negative if there
  // is none.
  std::int64_t column;
  // For states with tangents: the tangents of the parameters, laid out like the
  // parameters; null for zero tangents.
  const double* direction = nullptr;
  std::size_t direction_stride = 0;
};

// The precision of stored amplitudes. Parameters, sums over amplitudes and derivatives
// are always doubles.
enum class Precision : std::uint8_t { kDouble, kSingle };

constexpr std::size_t bytes_of_amplitude(Precision precision) {
  return 2 * (precision == Precision::kSingle ? sizeof(float) : sizeof(double));
}

// Separate arrays of real and imaginary parts, aligned for any instruction set, for one
// row, or for as many rows as there are lanes; the row is then the lowest bits of the
// index. The layout determines whether the numbers are doubles or floats.
struct Amplitudes {
  void* real;
  void* imag;
};

// A state, and its tangent along a direction if it has one.
struct Ket {
  Amplitudes state;
  Amplitudes tangent = {nullptr, nullptr};
  bool moves() const { return tangent.real != nullptr; }
};

// How the amplitudes of a state, or of a tile of a state, are stored.
struct Layout {
  std::size_t qubits;
  bool rows_in_lanes;
  Precision precision = Precision::kDouble;
  // For a tile: its position, as the other bits of an index into the whole state.
  std::uint64_t outside = 0;

  bool operator==(const Layout&) const = default;
};

}  // namespace bellhop::engine
