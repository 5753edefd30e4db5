// compiled_gates/tiling.h: group the operations of a program by the index bits that
// they act on.
//
// A *tile* of a large state is the part that a group processes at a time: the
// amplitudes whose index has any values at the group's bits, and the same values at all
// other bits. A tile fits into the first-level cache, so that the state is read once
// for each group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// The number of bits of a tile. Of 10 to 13, the fastest for value and gradient of
// circuits with 14 to 20 qubits (doc/architecture/engine.md). Smaller states are
// processed as a whole.
constexpr std::size_t kTileBits = 11;

// Operations of a program that act on the bits of one tile, so that a state is
// processed tile by tile; or one operation that goes through the whole state.
struct Group {
  Group() = default;
  Group(Group&&) = default;  // not copyable, because operations point to targets
  Group& operator=(Group&&) = default;

  // Bits of the whole state's index, ascending. All bits if an operation fits into no
  // tile; it is then the only operation of its group.
  std::vector<std::uint8_t> bits;
  // The operation of the group if it goes through the whole state (`is_large`). Its
  // bits and parameters are then numbered as in the program, and all members below are
  // empty.
  std::optional<Operation> large;
  // The operations, with bits and parameters numbered within the group: bit i is
  // bits[i] of the state's index, and parameter i is parameter slots[i] of an
  // iteration.
  std::vector<Operation> operations;
  // The same operations for the forward pass of a state without a tangent, with CNOTs
  // merged into the gates before them (kPairsThenFlip).
  std::vector<Operation> merged;
  std::vector<Factor> factors;
  std::vector<std::vector<std::uint8_t>> targets;
  std::vector<std::size_t> slots;

  // Return a view of `operations`, and of `merged`, as programs. `whole` is the program
  // of all groups, whose constants they share.
  Program program(const Program& whole) const {
    return {operations.data(), operations.size(), factors.data(), factors.size(),
            whole.constants,   slots.size(),      whole.gathered};
  }
  Program merged_program(const Program& whole) const {
    return {merged.data(),   merged.size(), factors.data(), factors.size(),
            whole.constants, slots.size(),  whole.gathered};
  }
};

// Whether an operation goes through the whole state, and not through tiles.
inline bool is_large(const Operation& operation) {
  using Kind = Operation::Kind;
  return operation.kind == Kind::kState || operation.kind == Kind::kDiagonal ||
         (operation.kind == Kind::kMatrix && operation.targets > kMostTableTargets);
}

// Returns the operations with each CNOT merged into the gate before it
// (kPairsThenFlip), if that gate is on the CNOT's target alone.
std::vector<Operation> merge_flips(const std::vector<Operation>& operations);

// Divides the operations of a program for a state with `qubits` qubits into groups,
// which are to be applied in order. Only commuting operations are reordered.
std::vector<Group> groups_of(const Program& program, std::size_t qubits);

}  // namespace bellhop::engine
