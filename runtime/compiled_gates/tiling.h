// compiled_gates/tiling.h: the operations of a program in groups, each for a few bits
// of the index.
//
// A *tile* of a large state is what a group works on at a time: the amplitudes whose
// index has any values at the bits of the group and the same at all others. It fits the
// first cache, so that a state is gone through once for each group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// Bits of a tile: of 10 to 13 those with which value and gradient of 14 to 20 qubits
// took least (doc/architecture/engine.md). Smaller states are worked on as a whole.
constexpr std::size_t kTileBits = 11;

struct Group {
  Group() = default;
  Group(Group&&) = default;  // operations point to targets
  Group& operator=(Group&&) = default;

  // Of the whole state's index, ascending. All, where an operation fits no tile: that
  // has a group of its own.
  std::vector<std::uint8_t> bits;
  // Of a large operation, which is alone in its group: it is applied to the whole
  // state, and its parameters stay where they are. All that follows is empty then.
  std::optional<Operation> large;
  // In terms of these bits, and of the parameters that they use: `slots` has their
  // places among all.
  std::vector<Operation> operations;
  std::vector<Factor> factors;
  std::vector<std::vector<std::uint8_t>> targets;
  std::vector<std::size_t> slots;

  Program program(const Program& whole) const {
    return {operations.data(), operations.size(), factors.data(), factors.size(),
            whole.constants,   slots.size(),      whole.gathered};
  }
};

// Whether an operation goes through the whole state, and not through tiles.
inline bool is_large(const Operation& operation) {
  using Kind = Operation::Kind;
  return operation.kind == Kind::kState || operation.kind == Kind::kDiagonal ||
         (operation.kind == Kind::kMatrix && operation.targets > kMostTableTargets);
}

// Groups whose operations, in order, do what the program does: those that have another
// order there commute.
std::vector<Group> groups_of(const Program& program, std::size_t qubits);

}  // namespace bellhop::engine
