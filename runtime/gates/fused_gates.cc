// gates/fused_gates.cc: which gates fuse, and what they are together.
#include "gates/fused_gates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string_view>

namespace bellhop {
namespace {

using Complex = std::complex<double>;

constexpr Complex kI{0, 1};

Matrix2 diagonal(Complex first, Complex second) { return {first, 0, 0, second}; }

Matrix2 hadamard(std::span<const double>) {
  constexpr double kHalf = std::numbers::sqrt2 / 2;
  return {kHalf, kHalf, kHalf, -kHalf};
}

Matrix2 pauli_x(std::span<const double>) { return {0, 1, 1, 0}; }
Matrix2 pauli_y(std::span<const double>) { return {0, -kI, kI, 0}; }
Matrix2 pauli_z(std::span<const double>) { return diagonal(1, -1); }
Matrix2 s(std::span<const double>) { return diagonal(1, kI); }
Matrix2 t(std::span<const double>) {
  return diagonal(1, std::polar(1.0, std::numbers::pi / 4));
}

Matrix2 phase_shift(std::span<const double> angle) {
  return diagonal(1, std::polar(1.0, angle[0]));
}

Matrix2 rx(std::span<const double> angle) {
  const double c = std::cos(angle[0] / 2), s = std::sin(angle[0] / 2);
  return {c, -kI * s, -kI * s, c};
}

Matrix2 ry(std::span<const double> angle) {
  const double c = std::cos(angle[0] / 2), s = std::sin(angle[0] / 2);
  return {c, -s, s, c};
}

Matrix2 rz(std::span<const double> angle) {
  return diagonal(std::polar(1.0, -angle[0] / 2), std::polar(1.0, angle[0] / 2));
}

struct Fusable {
  std::string_view name;
  Matrix2 (*matrix)(std::span<const double>);
};

constexpr std::array kFusable = {
    Fusable{"Hadamard", hadamard},
    Fusable{"PauliX", pauli_x},
    Fusable{"PauliY", pauli_y},
    Fusable{"PauliZ", pauli_z},
    Fusable{"PhaseShift", phase_shift},
    Fusable{"RX", rx},
    Fusable{"RY", ry},
    Fusable{"RZ", rz},
    Fusable{"S", s},
    Fusable{"T", t},
};

bool is_fusable(const Gate& gate) {
  return gate.kind == Gate::Kind::kNamed && gate.controls.empty() &&
         gate.wires.size() == 1 && !gate.run_time_wires &&
         std::ranges::find(kFusable, gate.name, &Fusable::name) != kFusable.end();
}

}  // namespace

GateGroups::GateGroups(std::span<const Gate> gates) {
  std::vector<std::vector<std::uint32_t>> groups;
  // By wire, the group that nothing else has followed there.
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
      // It may stand on any wire.
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
  const auto* known = std::ranges::find(kFusable, gate.name, &Fusable::name);
  const Matrix2 m = known->matrix(params);
  if (!gate.inverse) return m;
  return {std::conj(m[0]), std::conj(m[2]), std::conj(m[1]), std::conj(m[3])};
}

Matrix2 operator*(const Matrix2& left, const Matrix2& right) {
  return {
      left[0] * right[0] + left[1] * right[2], left[0] * right[1] + left[1] * right[3],
      left[2] * right[0] + left[3] * right[2], left[2] * right[1] + left[3] * right[3]};
}

}  // namespace bellhop
