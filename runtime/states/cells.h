// states/cells.h: sets of basis states that no measurement of a call distinguishes.
//
// The measurements of a call with shots read parities of bits: the outcome of a wire is
// one bit, and the sign of Z(0) @ Z(1) is the parity of two. A cell is the set of basis
// states that agree in all of these parities, and its index is a linear function of
// their bits. For Z(0) @ Z(1) alone there are two cells, for any number of qubits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bellhop::engine {

// A linear map of bits: bit j of the result is the parity of the bits that mask j
// picks.
class ParityMap {
 public:
  static constexpr std::size_t kTableBits = 11;

  // `masks` has a mask for each bit of the result, the highest first. `bits` is how
  // many bits the map's arguments have.
  ParityMap(std::span<const std::uint64_t> masks, std::size_t bits);

  // Maps an argument of `bits` bits.
  std::uint32_t operator()(std::size_t index) const {
    std::uint32_t result = 0;
    for (const std::vector<std::uint32_t>& table : tables_) {
      result ^= table[index & (table.size() - 1)];
      index >>= kTableBits;
    }
    return result;
  }

  // The results for arguments below 2^kTableBits.
  std::span<const std::uint32_t> of_low_bits() const { return tables_.front(); }

 private:
  std::vector<std::vector<std::uint32_t>> tables_;  // for kTableBits bits each
};

// The cells of the basis states of a circuit.
class Cells {
 public:
  // `masks` pick the bits of basis states whose parities are read.
  Cells(std::span<const std::uint64_t> masks, std::size_t qubits);

  // How many bits the index of a cell has.
  std::size_t bits() const { return masks_.size(); }
  std::size_t size() const { return std::size_t{1} << bits(); }
  // Whether each basis state is a cell by itself, with the same index.
  bool are_basis_states() const { return bits() == qubits_; }
  // The map of a basis state's index to the index of its cell.
  const ParityMap& cell_of() const { return map_; }
  // The mask of bits of a cell's index whose parity equals the parity of its basis
  // states under `mask`, which is one of the masks.
  std::uint64_t to_mask_of_cells(std::uint64_t mask) const;

 private:
  std::size_t qubits_;
  std::vector<std::uint64_t> masks_;  // of bits of a cell's number, the highest first
  ParityMap map_;
};

}  // namespace bellhop::engine
