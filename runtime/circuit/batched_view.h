// circuit/batched_view.h: numbers that the rows of a batch have, or share.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "devices/error.h"

namespace bellhop {

// Contiguous `values`: where `stride` is zero they are those of every row, otherwise
// those of row r are `stride` of them, from r * stride on.
template <typename Values>
struct PerRow {
  Values values;
  std::size_t stride = 0;

  using Row = std::span<const typename Values::value_type>;
  Row of(std::size_t row) const {
    return stride == 0 ? Row(values) : Row(values).subspan(row * stride, stride);
  }
  // How many each row has.
  std::size_t size() const { return stride == 0 ? values.size() : stride; }
};

// Reads a buffer of one dimension, which all rows share, or of two in a batch:
// [rows, numbers]. A circuit alone has no rows, so no dimension of size zero is theirs.
template <typename Buffer>
auto read_per_row(const Buffer& buffer, std::size_t rows) {
  const auto shape = buffer.dimensions();
  const std::span values(buffer.typed_data(), buffer.element_count());
  using Values = std::span<const typename decltype(values)::value_type>;
  if (shape.size() == 1) return PerRow<Values>{values};
  if (shape.size() != 2 || rows == 0 || static_cast<std::size_t>(shape[0]) != rows) {
    throw CircuitError("A batch of " + std::to_string(rows) +
                       " circuits was given numbers for another number of rows.");
  }
  return PerRow<Values>{values, static_cast<std::size_t>(shape[1])};
}

}  // namespace bellhop
