// states/tiles.h: process large states a tile at a time, on several threads.
//
// Sums over tiles do not depend on the number of threads. Threads check signals between
// tiles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiled_gates/tiling.h"
#include "gates/pauli_bits.h"
#include "states/given_amplitudes.h"
#include "states/states.h"
#include "states/tiled_program.h"

namespace bellhop::engine {

// The amplitudes of a state that groups of operations have written since |0...0>. All
// other amplitudes are 0, and their memory may hold anything. After a preparation no
// amplitude may be written yet: then all are what the program gives.
//
// One thread uses it at a time.
class WrittenAmplitudes {
 public:
  // An amplitude is written if all bits of its index are among these. They are kAll
  // once all amplitudes are written.
  std::uint64_t bits() const { return bits_; }
  void set_all() { bits_ = kAll; }
  // Starts at |0...0>, whose first amplitude is written.
  void set_first() { bits_ = 0; }

  // Notes that the state has the amplitudes that a program gives, which stay valid. The
  // next group, or another reader of the state, writes them.
  void give(const GivenAmplitudes& given) { given_ = given; }
  // Returns them, if they are not written yet; they count as written afterwards.
  std::optional<GivenAmplitudes> take_given() {
    return std::exchange(given_, std::nullopt);
  }
  // Whether the memory of the state holds all amplitudes.
  bool are_in_memory() const { return bits_ == kAll && !given_; }

  // Notes that a group with some bits is applied. Returns the bits before it.
  std::uint64_t apply_group(std::uint64_t of_group) {
    if (bits_ != kAll) {
      before_.resize(n_groups_, kAll);
      before_.push_back(bits_);
    }
    ++n_groups_;
    return std::exchange(bits_, bits_ | of_group);
  }
  // Notes that the last group is undone. Returns the bits before it.
  std::uint64_t undo_group() {
    --n_groups_;
    return n_groups_ < before_.size() ? before_[n_groups_] : kAll;
  }
  // Forgets the groups that were applied, which then cannot be undone, and amplitudes
  // that were given.
  void forget_groups() {
    n_groups_ = 0;
    before_.clear();
    given_.reset();
  }

  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

 private:
  std::uint64_t bits_ = kAll;
  std::size_t n_groups_ = 0;
  std::vector<std::uint64_t> before_;  // by group, or kAll at its end
  std::optional<GivenAmplitudes> given_;
};

// Writes amplitudes that a program gives to a state, unless a group has written them.
void write_given(WrittenAmplitudes& written, const States& states,
                 const Amplitudes& state);

// Like Sweeps::forward and Sweeps::backward, for one iteration of a program, tile by
// tile. `jacobian` points to the column of the first parameter, or is null if no
// derivatives are needed; `columns` is the distance between the rows of two bras.
// `written` is updated.
//
// Tiles are skipped whose amplitudes are 0 before and after a group, so the first
// groups after |0...0> cost little. On the way back they are skipped too: there the ket
// is 0, and all groups before this one need the bras only where the ket was not 0. So
// afterwards, amplitudes of ket and bras that were 0 at the beginning are not valid.
void forward_by_tiles(const TiledProgram& program, const States& states, const Ket& ket,
                      WrittenAmplitudes& written);
void backward_by_tiles(const TiledProgram& program, const States& states,
                       const Ket& ket, std::span<const Amplitudes> bras,
                       double* jacobian, std::size_t columns,
                       WrittenAmplitudes& written);

// Returns how many amplitudes groups of operations have read and written in this
// process, each in one pass through a state or a part of it.
std::uint64_t amplitudes_passed() noexcept;

// One number for each lane.
using Lanewise = std::array<double, 16>;

struct WeightedWord {
  PauliBits bits;
  Lanewise weight;
};

// Computes into += sum of weight * word * ket.
void add_words(std::span<const WeightedWord> words, const States& states,
               const Amplitudes& into, const Amplitudes& ket);
// Returns the sum of weight * Re <bra|word|ket>, for each lane.
Lanewise overlap_of_words(std::span<const WeightedWord> words, const States& states,
                          const Amplitudes& bra, const Amplitudes& ket);

}  // namespace bellhop::engine
