// gates/wire_gates.h: gates on one wire, and their matrices.
#pragma once

#include <array>
#include <complex>
#include <numbers>
#include <string_view>

#include "gates/axis.h"

namespace bellhop {

// A 2x2 matrix, row-major.
using Matrix2 = std::array<std::complex<double>, 4>;

inline constexpr std::complex<double> kI{0, 1};
inline constexpr double kRootOfHalf = std::numbers::sqrt2 / 2;

inline constexpr Matrix2 kIdentity = {1, 0, 0, 1};
inline constexpr Matrix2 kPauliX = {0, 1, 1, 0};
inline constexpr Matrix2 kPauliY = {0, -kI, kI, 0};
inline constexpr Matrix2 kPauliZ = {1, 0, 0, -1};
inline constexpr Matrix2 kHadamard = {kRootOfHalf, kRootOfHalf, kRootOfHalf,
                                      -kRootOfHalf};

// Returns the product of two matrices.
Matrix2 operator*(const Matrix2& left, const Matrix2& right);
// Returns the conjugate transpose of a matrix.
Matrix2 adjoint_of(const Matrix2& matrix);

// Returns the matrix of a rotation by phi; the axis is not kFixed.
Matrix2 rotation(Axis axis, double phi);

// A gate by name: a rotation by `scale` times its parameter, or a fixed matrix.
struct WireGate {
  std::string_view name;
  Axis axis;
  double scale = 1;
  Matrix2 matrix = kIdentity;
};

// Returns the gate on one wire with a name, or null.
const WireGate* find_wire_gate(std::string_view name);

}  // namespace bellhop
