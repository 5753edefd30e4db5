// compiled_gates/factor_list.cc: lists of gates on the same pairs of amplitudes.
#include "compiled_gates/factor_list.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace bellhop::engine {
namespace {

using FactorKind = Factor::Kind;

Matrix2 matrix_of(const Factor& factor) {
  Matrix2 m;
  for (std::size_t i = 0; i < 4; ++i) m[i] = {factor.real[i], factor.imag[i]};
  return m;
}

}  // namespace

Factor fixed(const Matrix2& u) {
  Factor factor;
  for (std::size_t i = 0; i < 4; ++i) {
    factor.real[i] = u[i].real();
    factor.imag[i] = u[i].imag();
  }
  const std::array<Matrix2, 3> paulis = {kPauliX, kPauliY, kPauliZ};
  for (std::size_t p = 0; p < 3; ++p) {
    const Matrix2 turned = u * paulis[p] * adjoint_of(u);
    for (std::size_t q = 0; q < 3; ++q) {
      const Matrix2 product = paulis[q] * turned;
      factor.bloch[3 * q + p] = (product[0] + product[3]).real() / 2;
    }
  }
  return factor;
}

void join(std::vector<Factor>& factors, const Factor& factor) {
  if (factor.kind == FactorKind::kFixed && !factors.empty() &&
      factors.back().kind == FactorKind::kFixed) {
    factors.back() = fixed(matrix_of(factor) * matrix_of(factors.back()));
  } else {
    factors.push_back(factor);
  }
}

Operation::Form form_of(const std::vector<Factor>& factors) {
  using Form = Operation::Form;
  bool is_diagonal = true, is_real = true, is_cross = true;
  for (const Factor& factor : factors) {
    const bool is_fixed = factor.kind == FactorKind::kFixed;
    const auto is_zero = [](double value) { return value == 0; };
    is_diagonal &= factor.kind == FactorKind::kZ || factor.kind == FactorKind::kPhase ||
                   (is_fixed && factor.real[1] == 0 && factor.real[2] == 0 &&
                    factor.imag[1] == 0 && factor.imag[2] == 0);
    is_real &= factor.kind == FactorKind::kY ||
               (is_fixed && std::ranges::all_of(factor.imag, is_zero));
    is_cross &= factor.kind == FactorKind::kX ||
                (is_fixed && factor.real[1] == 0 && factor.real[2] == 0 &&
                 factor.imag[0] == 0 && factor.imag[3] == 0);
  }
  if (is_diagonal) return Form::kDiagonal;
  if (!is_real) return is_cross ? Form::kCross : Form::kGeneral;
  const bool is_flip = factors.size() == 1 && factors[0].kind == FactorKind::kFixed &&
                       factors[0].real[0] == 0 && factors[0].real[3] == 0 &&
                       factors[0].real[1] == 1 && factors[0].real[2] == 1;
  return is_flip ? Form::kFlip : Form::kReal;
}

}  // namespace bellhop::engine
