// kernels/operation.h: what a circuit consists of, to the engine.
//
// Plain data, read by code that is compiled for several instruction sets.
//
// An amplitude's index has a bit for each qubit: bit 0 is the last wire. A *pair* is
// two amplitudes, `i` and `i ^ flips`, and an operation on pairs is a 2x2 matrix
// applied to those whose `i & mask` is `value`. That is a gate on one wire (flips and
// mask are its bit, value is 0), the same with controls (more bits in the mask), SWAP
// and the excitations (several bits in flips). With no flips there are only second
// amplitudes, which get a phase.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gates/axis.h"

namespace bellhop::engine {

// Wires of a matrix: more than any state that fits has.
constexpr std::size_t kMostTargets = 48;

// One of the gates on the same pairs, in order, that make an operation. Its phi is
// `scale` times a parameter.
struct Factor {
  using Kind = Axis;

  Kind kind = Kind::kFixed;
  double scale = 1;
  std::size_t slot = 0;  // of the parameter, in an iteration; a fixed one has none
  // kFixed: the matrix, row major, and how it rotates the Bloch vector: U P U^-1 is the
  // sum of bloch[3 * q + p] times Q.
  double real[4] = {1, 0, 0, 1};
  double imag[4] = {};
  double bloch[9] = {};
};

struct Operation {
  enum class Kind : std::uint8_t {
    kPairs,
    kPauliRotation,  // exp(-i phi P) for a word P, by the one factor's scale and slot
    kMatrix,         // on several wires
    kState,          // instead of the zero state: amplitudes of some qubits
    kDiagonal        // exp(i phi) of an amplitude, by its index in some qubits
  };
  // Which entries of the matrix of a pair are other than zero, or how it is computed.
  enum class Form : std::uint8_t { kGeneral, kReal, kDiagonal, kFlip };

  Kind kind = Kind::kPairs;
  Form form = Form::kGeneral;
  std::uint64_t flips = 0;
  std::uint64_t mask = 0;
  std::uint64_t value = 0;
  std::uint64_t signs = 0;  // kPauliRotation: wires with Y or Z
  unsigned y_factors = 0;   // and how many have Y
  std::size_t factor = 0;   // the first of them
  std::size_t factors = 0;
  // kMatrix, kState, kDiagonal: bits of the targets, the highest of the index into what
  // is applied first, and where its entries begin, among the constants or the
  // parameters of an iteration: real and imaginary parts in turn, only real ones of a
  // state that is real, and the angles of a diagonal.
  const std::uint8_t* bits = nullptr;
  std::size_t targets = 0;
  bool is_constant = true;
  bool is_adjoint = false;
  bool is_real = false;
  std::size_t entries = 0;
  // Of a tile, whose bits all of the above are of: the other bits that must be as in
  // `outer_value`, and those with Y or Z.
  std::uint64_t outer_mask = 0;
  std::uint64_t outer_value = 0;
  std::uint64_t outer_signs = 0;
};

// Operations in order, for one iteration of a run of gates.
struct Program {
  const Operation* operations;
  std::size_t size;
  const Factor* factors;
  std::size_t n_factors;
  const double* constants;
  std::size_t parameters;  // of an iteration
  std::size_t gathered;    // the numbers that its matrices need, see Scratch
};

// A program at its parameters. `iterations` times, one after another.
struct Segment {
  const Program* program;
  std::size_t iterations;
  const double* parameters;  // of the first row
  std::size_t stride;        // from one row to the next; 0: they share them
  // The column of the derivative by the first parameter; below zero: there is none.
  std::int64_t column;
  // Of states that have tangents: how the parameters change, laid out as they are; null
  // where they do not.
  const double* direction = nullptr;
  std::size_t direction_stride = 0;
};

// What amplitudes are stored in. Parameters, sums over amplitudes and derivatives are
// doubles in both.
enum class Precision : std::uint8_t { kDouble, kSingle };

constexpr std::size_t bytes_of_amplitude(Precision precision) {
  return 2 * (precision == Precision::kSingle ? sizeof(float) : sizeof(double));
}

// Amplitudes as separate real and imaginary parts, aligned for any instruction set.
// Either of one row, or of as many rows as there are lanes, which are then the lowest
// bits of the index. Their layout says what the numbers are: doubles or floats.
struct Amplitudes {
  void* real;
  void* imag;
};

// A state, with its derivative along a direction where it has such a tangent.
struct Ket {
  Amplitudes state;
  Amplitudes tangent = {nullptr, nullptr};
  bool moves() const { return tangent.real != nullptr; }
};

struct Layout {
  std::size_t qubits;
  bool rows_in_lanes;
  Precision precision = Precision::kDouble;
  // Of a tile: where it is, as the other bits of an index into the whole state.
  std::uint64_t outside = 0;

  bool operator==(const Layout&) const = default;
};

}  // namespace bellhop::engine
