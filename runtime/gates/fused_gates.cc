// gates/fused_gates.cc: fuse successive gates on one wire into one matrix.
#include "gates/fused_gates.h"

#include <algorithm>
#include <map>

namespace bellhop {
namespace {

bool is_fusable(const Gate& gate) {
  return gate.kind == Gate::Kind::kNamed && gate.controls.empty() &&
         gate.wires.size() == 1 && !gate.run_time_wires &&
         find_wire_gate(gate.name) != nullptr;
}

}  // namespace

GateGroups::GateGroups(std::span<const Gate> gates) {
  std::vector<std::vector<std::uint32_t>> groups;
  // The last group on each wire, while no other gate has followed there.
  std::map<WireCode, std::size_t> open;
  for (std::uint32_t index = 0; index < gates.size(); ++index) {
    const Gate& gate = gates[index];
    const bool fusable = is_fusable(gate);
    if (fusable) {
      if (const auto found = open.find(gate.wires[0]); found != open.end()) {
        groups[found->second].push_back(index);
        continue;
      }
      open[gate.wires[0]] = groups.size();
    } else if (gate.kind != Gate::Kind::kNamed || gate.run_time_wires) {
      // The gate may act on any wire.
      open.clear();
    } else {
      for (WireCode wire : gate.wires) open.erase(wire);
      for (WireCode wire : gate.controls) open.erase(wire);
    }
    groups.push_back({index});
  }
  for (const auto& group : groups) {
    order_.insert(order_.end(), group.begin(), group.end());
    ends_.push_back(static_cast<std::uint32_t>(order_.size()));
  }
}

Matrix2 matrix_of(const Gate& gate, std::span<const double> params) {
  const WireGate& known = *find_wire_gate(gate.name);
  const Matrix2 matrix = known.axis == Axis::kFixed
                             ? known.matrix
                             : rotation(known.axis, known.scale * params[0]);
  return gate.inverse ? adjoint_of(matrix) : matrix;
}

}  // namespace bellhop
