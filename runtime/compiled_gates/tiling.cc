// compiled_gates/tiling.cc: group the operations of a program by the index bits that
// they act on.
#include "compiled_gates/tiling.h"

#include <array>
#include <bit>
#include <deque>
#include <utility>

namespace bellhop::engine {
namespace {

using OperationKind = Operation::Kind;

// The lowest bits are in each tile, so that it is gathered from whole cache lines, four
// at a time.
constexpr std::uint64_t kLowest = 0b11111;
// The most operations that are considered for one group.
constexpr std::size_t kLookedAt = 4096;

struct Reach {
  std::uint64_t inside;  // index bits that the tile must contain
  std::uint64_t mixed;   // index bits that the operation may change
  std::uint64_t read;    // index bits that the operation only reads
};

// Returns which index bits an operation needs, changes and reads.
Reach reach_of(const Operation& operation) {
  if (operation.kind == OperationKind::kState)
    return {~std::uint64_t{0}, ~std::uint64_t{0}, 0};
  if (operation.kind == OperationKind::kDiagonal) {
    std::uint64_t read = operation.mask;
    for (std::size_t t = 0; t < operation.targets; ++t) {
      read |= std::uint64_t{1} << operation.bits[t];
    }
    return {0, 0, read};
  }
  std::uint64_t mixed = operation.flips;
  for (std::size_t t = 0; t < operation.targets; ++t) {
    mixed |= std::uint64_t{1} << operation.bits[t];
  }
  const std::uint64_t all = mixed | operation.mask | operation.signs;
  const std::uint64_t inside = mixed;
  if (operation.kind == OperationKind::kPairs &&
      operation.form == Operation::Form::kDiagonal) {
    mixed = 0;
  }
  return {inside, mixed, all & ~mixed};
}

std::uint64_t within(std::uint64_t bits, std::uint64_t tile) {
  std::uint64_t out = 0;
  for (std::uint64_t to = 1; tile != 0; tile &= tile - 1, to <<= 1) {
    if ((bits & tile & -tile) != 0) out |= to;
  }
  return out;
}

// Returns whether an operation is a gate on one wire whose matrix costs the same with
// its rows exchanged.
bool can_exchange(const Operation& operation) {
  using Form = Operation::Form;
  return operation.kind == OperationKind::kPairs &&
         std::has_single_bit(operation.flips) && operation.mask == operation.flips &&
         operation.value == 0 && operation.outer_mask == 0 &&
         (operation.form == Form::kGeneral || operation.form == Form::kReal);
}

// Returns whether an operation is a CNOT.
bool is_controlled_flip(const Operation& operation) {
  return operation.kind == OperationKind::kPairs &&
         operation.form == Operation::Form::kFlip &&
         std::has_single_bit(operation.flips) &&
         (operation.value & operation.flips) == 0 &&
         std::popcount(operation.mask) + std::popcount(operation.outer_mask) == 2;
}

class Grouping {
 public:
  Grouping(const Program& program, std::size_t qubits)
      : program_(program), all_((std::uint64_t{1} << qubits) - 1) {
    for (std::size_t i = 0; i < program.size; ++i) left_.push_back(i);
  }

  std::vector<Group> run() {
    std::vector<Group> groups;
    while (!left_.empty()) {
      const std::vector<std::size_t> chosen = choose();
      Group& group = groups.emplace_back();
      if (is_large(program_.operations[chosen.front()])) {
        group.large = program_.operations[chosen.front()];
        continue;
      }
      for (std::uint64_t bits = tile_; bits != 0; bits &= bits - 1) {
        group.bits.push_back(static_cast<std::uint8_t>(std::countr_zero(bits)));
      }
      for (const std::size_t i : chosen) add(group, program_.operations[i]);
      group.merged = merge_flips(group.operations);
    }
    return groups;
  }

 private:
  // Chooses operations that commute with all operations before them that were not
  // chosen, while their bits fit into the tile.
  std::vector<std::size_t> choose() {
    tile_ = kLowest;
    std::uint64_t mixed = 0, read = 0;  // by operations that are not taken
    std::vector<std::size_t> chosen;
    std::deque<std::size_t> passed;
    for (std::size_t n = 0; n < kLookedAt && !left_.empty() && mixed != all_; ++n) {
      const std::size_t i = left_.front();
      left_.pop_front();
      const bool is_alone = is_large(program_.operations[i]);
      if (is_alone && chosen.empty() && passed.empty()) return {i};
      const Reach reach = reach_of(program_.operations[i]);
      const bool is_free =
          (reach.mixed & (mixed | read)) == 0 && (reach.read & mixed) == 0;
      const std::uint64_t wanted = tile_ | reach.inside;
      const bool fits = std::popcount(wanted) <= static_cast<int>(kTileBits);
      if (is_free && !is_alone && (fits || (chosen.empty() && passed.empty()))) {
        chosen.push_back(i);
        tile_ = wanted & all_;
        if (!fits) {
          tile_ = all_;
          return chosen;
        }
      } else {
        passed.push_back(i);
        mixed |= reach.mixed & all_;
        read |= reach.read;
      }
    }
    left_.insert(left_.begin(), passed.begin(), passed.end());
    for (std::uint64_t free = all_ & ~tile_;
         free != 0 && std::popcount(tile_) < static_cast<int>(kTileBits);
         free &= free - 1) {
      tile_ |= free & -free;
    }
    return chosen;
  }

  // Appends an operation to a group, in terms of the group's bits and parameters.
  void add(Group& group, Operation operation) const {
    if (operation.kind == OperationKind::kMatrix) {
      std::vector<std::uint8_t>& bits = group.targets.emplace_back();
      for (std::size_t t = 0; t < operation.targets; ++t) {
        const std::uint64_t bit = std::uint64_t{1} << operation.bits[t];
        bits.push_back(static_cast<std::uint8_t>(std::countr_zero(within(bit, tile_))));
      }
      operation.bits = bits.data();
      if (!operation.is_constant) {
        const std::size_t entries = std::size_t{2} << 2 * operation.targets;
        const std::size_t first = std::exchange(operation.entries, group.slots.size());
        for (std::size_t k = 0; k < entries; ++k) group.slots.push_back(first + k);
      }
    }
    const Factor* const factors = program_.factors + operation.factor;
    operation.factor = group.factors.size();
    for (std::size_t f = 0; f < operation.factors; ++f) {
      Factor& factor = group.factors.emplace_back(factors[f]);
      if (factor.kind == Factor::Kind::kFixed) continue;
      factor.slot = group.slots.size();
      group.slots.push_back(factors[f].slot);
    }
    operation.outer_mask = operation.mask & ~tile_;
    operation.outer_value = operation.value & ~tile_;
    operation.outer_signs = operation.signs & ~tile_;
    operation.flips = within(operation.flips, tile_);
    operation.mask = within(operation.mask, tile_);
    operation.value = within(operation.value, tile_);
    operation.signs = within(operation.signs, tile_);
    group.operations.push_back(operation);
  }

  const Program& program_;
  const std::uint64_t all_;
  std::deque<std::size_t> left_;
  std::uint64_t tile_ = 0;
};

}  // namespace

std::vector<Operation> merge_flips(const std::vector<Operation>& operations) {
  std::vector<Operation> merged = operations;
  std::vector<bool> is_merged(operations.size());
  // By bit: the index of the last operation on it plus 1, or 0.
  std::array<std::size_t, 64> last{};
  for (std::size_t i = 0; i < merged.size(); ++i) {
    // The gate commutes with all operations between it and the CNOT.
    Operation& operation = merged[i];
    if (is_controlled_flip(operation)) {
      const std::size_t before = last[std::countr_zero(operation.flips)];
      if (before != 0 && can_exchange(merged[before - 1])) {
        const Operation& gate = merged[before - 1];
        operation.kind = OperationKind::kPairsThenFlip;
        operation.form = gate.form;
        operation.factor = gate.factor;
        operation.factors = gate.factors;
        is_merged[before - 1] = true;
      }
    }
    const Reach reach = reach_of(operations[i]);
    for (std::uint64_t bits = reach.mixed | reach.read; bits != 0; bits &= bits - 1) {
      last[std::countr_zero(bits)] = i + 1;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    if (!is_merged[i]) merged[kept++] = merged[i];
  }
  merged.resize(kept);
  return merged;
}

std::vector<Group> groups_of(const Program& program, std::size_t qubits) {
  return Grouping(program, qubits).run();
}

}  // namespace bellhop::engine
