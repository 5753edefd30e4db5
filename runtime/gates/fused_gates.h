// gates/fused_gates.h: gates that follow one another on one wire, as one matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gates/gate.h"
#include "gates/wire_gates.h"

namespace bellhop {

// Gates in an order in which they act as in their own, by their indices. Those of a
// group stand on one wire, with nothing on it between them.
class GateGroups {
 public:
  GateGroups() = default;
  explicit GateGroups(std::span<const Gate> gates);

  // Whether any group has more than one gate.
  bool fuses() const { return ends_.size() < order_.size(); }

  std::size_t size() const { return ends_.size(); }

  std::span<const std::uint32_t> operator[](std::size_t group) const {
    const std::size_t begin = group == 0 ? 0 : ends_[group - 1];
    return std::span(order_).subspan(begin, ends_[group] - begin);
  }

 private:
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> ends_;
};

// The matrix of a gate that may stand in a group with others.
Matrix2 matrix_of(const Gate& gate, std::span<const double> params);

}  // namespace bellhop
