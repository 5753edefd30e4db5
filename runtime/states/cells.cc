// states/cells.cc: the cells of basis states, by Gaussian elimination.
#include "states/cells.h"

#include <algorithm>
#include <functional>

namespace bellhop::engine {
namespace {

// Brings masks to reduced row echelon form: the highest bit of each is in no other, and
// the highest come first. Masks of all qubits become one bit each, in order.
std::vector<std::uint64_t> to_echelon_form(std::span<const std::uint64_t> masks) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t mask : masks) {
    for (const std::uint64_t row : rows) {
      if ((mask & std::bit_floor(row)) != 0) mask ^= row;
    }
    if (mask == 0) continue;
    for (std::uint64_t& row : rows) {
      if ((row & std::bit_floor(mask)) != 0) row ^= mask;
    }
    rows.push_back(mask);
  }
  std::ranges::sort(rows, std::greater());
  return rows;
}

}  // namespace

ParityMap::ParityMap(std::span<const std::uint64_t> masks, std::size_t bits) {
  for (std::size_t first = 0; first == 0 || first < bits; first += kTableBits) {
    const std::size_t here = std::min(bits - std::min(first, bits), kTableBits);
    std::vector<std::uint32_t>& table = tables_.emplace_back(std::size_t{1} << here);
    for (std::size_t bit = 0; bit < here; ++bit) {
      std::uint32_t image = 0;
      for (const std::uint64_t mask : masks) {
        image = image << 1 | static_cast<std::uint32_t>(mask >> (first + bit) & 1);
      }
      const std::size_t half = std::size_t{1} << bit;
      for (std::size_t i = 0; i < half; ++i) table[half + i] = table[i] ^ image;
    }
  }
}

Cells::Cells(std::span<const std::uint64_t> masks, std::size_t qubits)
    : qubits_(qubits), masks_(to_echelon_form(masks)), map_(masks_, qubits) {}

std::uint64_t Cells::to_mask_of_cells(std::uint64_t mask) const {
  std::uint64_t found = 0;
  for (const std::uint64_t row : masks_) {
    found = found << 1 | static_cast<std::uint64_t>((mask & std::bit_floor(row)) != 0);
  }
  return found;
}

}  // namespace bellhop::engine
