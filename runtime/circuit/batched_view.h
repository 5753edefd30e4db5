// circuit/batched_view.h: numbers of a batch of circuits, per row or shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "devices/checked_size.h"
#include "devices/error.h"

namespace bellhop {

// Numbers for the rows of a batch. If `stride` is zero, all rows share `values`;
// otherwise row r has values[r * stride] to values[(r + 1) * stride - 1].
template <typename Values>
struct PerRow {
  Values values;
  std::size_t stride = 0;

  using Row = std::span<const typename Values::value_type>;
  // Returns a view of the numbers of a row; valid as long as `values` is.
  Row of(std::size_t row) const {
    return stride == 0 ? Row(values) : Row(values).subspan(row * stride, stride);
  }
  // Returns how many numbers each row has.
  std::size_t size() const { return stride == 0 ? values.size() : stride; }
};

// Throws CircuitError for a buffer that is neither [n] nor, in a batch, [rows, n].
[[noreturn]] inline void throw_wrong_rows(std::span<const std::int64_t> shape,
                                          std::size_t rows) {
  std::string sizes;
  for (const std::int64_t size : shape) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  throw CircuitError(
      rows == 0
          ? "values of a circuit: expected shape [n], got [" + sizes + "]." + kDamaged
          : "values of a batch: expected shape [n] or [" + std::to_string(rows) +
                ", n], got [" + sizes + "]." + kDamaged);
}

// Views a buffer of shape [numbers], which all rows share, or [rows, numbers]. Throws
// CircuitError for other shapes. `rows` is 0 for a single circuit.
template <typename Buffer>
auto read_per_row(const Buffer& buffer, std::size_t rows) {
  const auto shape = buffer.dimensions();
  const std::span values(buffer.typed_data(),
                         count_elements(buffer, "values of a circuit"));
  using Values = std::span<const typename decltype(values)::value_type>;
  if (shape.size() == 1) return PerRow<Values>{values};
  if (shape.size() != 2 || rows == 0 || static_cast<std::size_t>(shape[0]) != rows) {
    throw_wrong_rows({shape.begin(), shape.size()}, rows);
  }
  return PerRow<Values>{values, static_cast<std::size_t>(shape[1])};
}

}  // namespace bellhop
