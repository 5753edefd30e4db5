// gates/fused_gates.h: fuse successive gates on one wire into one matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gates/gate.h"
#include "gates/wire_gates.h"

namespace bellhop {

// Groups gates, by their indices, in an order that has the same effect as the original
// one. The gates of a group are on one wire, with no other gate on it between them.
class GateGroups {
 public:
  GateGroups() = default;
  explicit GateGroups(std::span<const Gate> gates);

  // Returns whether any group has more than one gate.
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

// Returns the matrix of a gate on one wire that may be fused with other gates. `params`
// has the gate's own parameter, if it has one.
Matrix2 matrix_of(const Gate& gate, std::span<const double> params);

}  // namespace bellhop
