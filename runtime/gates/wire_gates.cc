// gates/wire_gates.cc: gates on one wire, and their matrices.
#include "gates/wire_gates.h"

#include <algorithm>
#include <cmath>

namespace bellhop {
namespace {

constexpr std::array kWireGates = {
    WireGate{"Hadamard", Axis::kFixed, 1, kHadamard},
    WireGate{"PauliX", Axis::kFixed, 1, kPauliX},
    WireGate{"PauliY", Axis::kFixed, 1, kPauliY},
    WireGate{"PauliZ", Axis::kFixed, 1, kPauliZ},
    WireGate{"PhaseShift", Axis::kPhase},
    WireGate{"RX", Axis::kX, 0.5},
    WireGate{"RY", Axis::kY, 0.5},
    WireGate{"RZ", Axis::kZ, 0.5},
    WireGate{"S", Axis::kFixed, 1, {1, 0, 0, kI}},
    WireGate{"SX",
             Axis::kFixed,
             1,
             {std::complex{0.5, 0.5}, std::complex{0.5, -0.5}, std::complex{0.5, -0.5},
              std::complex{0.5, 0.5}}},
    WireGate{"T", Axis::kFixed, 1, {1, 0, 0, std::complex{kRootOfHalf, kRootOfHalf}}},
};

}  // namespace

Matrix2 operator*(const Matrix2& a, const Matrix2& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
          a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}

Matrix2 adjoint_of(const Matrix2& m) {
  return {std::conj(m[0]), std::conj(m[2]), std::conj(m[1]), std::conj(m[3])};
}

Matrix2 rotation(Axis axis, double phi) {
  const double c = std::cos(phi), s = std::sin(phi);
  switch (axis) {
    case Axis::kX:
      return {c, -kI * s, -kI * s, c};
    case Axis::kY:
      return {c, -s, s, c};
    case Axis::kZ:
      return {c - kI * s, 0, 0, c + kI * s};
    case Axis::kPhase:
      return {1, 0, 0, c + kI * s};
    case Axis::kFixed:
      break;
  }
  return kIdentity;
}

const WireGate* find_wire_gate(std::string_view name) {
  const auto* const found = std::ranges::find(kWireGates, name, &WireGate::name);
  return found == kWireGates.end() ? nullptr : found;
}

}  // namespace bellhop
