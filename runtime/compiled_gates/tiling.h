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

struct Group {
  Group() = default;
  Group(Group&&) = default;  // not copyable, because operations point to targets
  Group& operator=(Group&&) = default;

  // Bits of the whole state's index, ascending. All bits if an operation fits into no
  // tile; it is then the only operation of its group.
  std::vector<std::uint8_t> bits;
  // Of a large operation, which is alone in its group: it is applied to the whole
  // state, and its parameters stay where they are. All that follows is empty then.
  std::optional<Operation> large;
  // In terms of these bits, and of the parameters that they use: `slots` has their
  // places among all.
  std::vector<Operation> operations;
  // The same operations for the forward pass of a state without a tangent, with CNOTs
  // merged into the gates before them (kPairsThenFlip).
  std::vector<Operation> merged;
  std::vector<Factor> factors;
  std::vector<std::vector<std::uint8_t>> targets;
  std::vector<std::size_t> slots;

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

// Groups whose operations, in order, are equivalent to the program: only commuting
// operations are reordered.
std::vector<Group> groups_of(const Program& program, std::size_t qubits);

}  // namespace bellhop::engine
