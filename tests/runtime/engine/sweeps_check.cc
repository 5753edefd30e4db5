// Holds the sweeps of one instruction set against the definitions in
// kernels/operation.h, one amplitude after another, and derivatives against
// differences. Runs on its own, so that it runs where nothing but a compiler and an
// emulator is: see test_instruction_sets.py.
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace bellhop::engine {
namespace BELLHOP_CHECKED {
extern const Sweeps kSweeps;
}

namespace {

using Number = std::complex<double>;
using Kind = Operation::Kind;
using Form = Operation::Form;

constexpr std::size_t kQubits = 6, kSize = std::size_t{1} << kQubits, kOperations = 24;
const Sweeps& checked = BELLHOP_CHECKED::kSweeps;
std::mt19937_64 generator(7);

std::size_t below(std::size_t n) { return generator() % n; }
double number() { return std::uniform_real_distribution<double>(-2, 2)(generator); }

using Real = BELLHOP_REAL;
constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr std::size_t kMostLanes = 16;

template <typename T>
T* zeros(std::size_t count) {
  auto* numbers =
      static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t{128}));
  for (std::size_t i = 0; i < count; ++i) numbers[i] = 0;
  return numbers;
}
double* doubles(std::size_t count) { return zeros<double>(count); }
double at(const void* numbers, std::size_t i) {
  return static_cast<const Real*>(numbers)[i];
}

struct Circuit {
  std::vector<Operation> operations;
  std::vector<Factor> factors;
  std::vector<double> constants;
  std::vector<std::vector<std::uint8_t>> bits;
  std::size_t parameters = 0;

  Factor turn(Axis kind) {
    Factor factor;
    factor.kind = kind;
    if (kind == Axis::kFixed) {  // a Hadamard gate: X and Z change places, Y its sign
      const double half = std::sqrt(0.5);
      const double real[] = {half, half, half, -half};
      const double bloch[] = {0, 0, 1, 0, -1, 0, 1, 0, 0};
      for (int i = 0; i < 4; ++i) factor.real[i] = real[i];
      for (int i = 0; i < 9; ++i) factor.bloch[i] = bloch[i];
    } else {
      factor.scale = below(2) == 0 ? 0.5 : -1.5;
      factor.slot = parameters++;
    }
    return factor;
  }

  void add_pairs() {
    static constexpr Axis kinds[] = {Axis::kX, Axis::kY, Axis::kZ, Axis::kPhase,
                                     Axis::kFixed};
    static constexpr Form forms[] = {Form::kGeneral, Form::kReal, Form::kCross,
                                     Form::kDiagonal, Form::kFlip};
    Operation operation;
    operation.form = forms[below(5)];
    operation.factor = factors.size();
    operation.factors = operation.form == Form::kFlip ? 1 : 1 + below(3);
    for (std::size_t f = 0; f < operation.factors; ++f) {
      factors.push_back(turn(operation.form == Form::kGeneral    ? kinds[below(5)]
                             : operation.form == Form::kReal     ? Axis::kY
                             : operation.form == Form::kCross    ? Axis::kX
                             : operation.form == Form::kDiagonal ? kinds[2 + below(2)]
                                                                 : Axis::kFixed));
    }
    if (operation.form == Form::kFlip) {
      const double flip[] = {0, 1, 1, 0}, bloch[] = {1, 0, 0, 0, -1, 0, 0, 0, -1};
      for (int i = 0; i < 4; ++i) factors.back().real[i] = flip[i];
      for (int i = 0; i < 9; ++i) factors.back().bloch[i] = bloch[i];
    }
    // The first bit that is flipped says which amplitude is the first.
    const std::size_t all = below(kSize);
    operation.flips = all == 0 ? 1 : all;
    if (operation.form == Form::kDiagonal) operation.flips &= ~operation.flips + 1;
    operation.mask = (operation.flips & (~operation.flips + 1)) | below(kSize);
    operation.value = operation.mask & below(kSize);
    operations.push_back(operation);
  }

  // A gate on one bit and a CNOT, as the tiles of large states merge them.
  void add_pairs_then_flip() {
    Operation operation;
    operation.kind = Kind::kPairsThenFlip;
    operation.form = below(2) == 0 ? Form::kReal : Form::kGeneral;
    operation.factor = factors.size();
    operation.factors = 2;
    factors.push_back(turn(Axis::kY));
    factors.push_back(turn(operation.form == Form::kReal ? Axis::kY : Axis::kZ));
    const std::size_t target = below(kQubits);
    const std::size_t control = (target + 1 + below(kQubits - 1)) % kQubits;
    operation.flips = std::size_t{1} << target;
    // Without a control in the tile, all pairs are flipped, or none.
    const std::size_t kind = below(4);
    operation.mask = operation.flips | (kind == 0 ? 0 : std::size_t{1} << control);
    operation.value = operation.mask & ~operation.flips & below(kSize);
    if (kind == 0) {
      operation.outer_mask = kSize;
      operation.outer_value = kSize * below(2);
    }
    operations.push_back(operation);
  }

  void add_word() {
    Operation operation;
    operation.kind = Kind::kPauliRotation;
    operation.flips = below(kSize);
    operation.signs = below(kSize);
    operation.y_factors =
        static_cast<unsigned>(__builtin_popcountll(operation.flips & operation.signs));
    operation.factor = factors.size();
    operation.factors = 1;
    factors.push_back(turn(Axis::kX));
    operations.push_back(operation);
  }

  // A permutation with phases.
  void add_matrix() {
    Operation operation;
    operation.kind = Kind::kMatrix;
    const auto first = static_cast<std::uint8_t>(below(kQubits));
    bits.push_back(
        {first, static_cast<std::uint8_t>((first + 1 + below(kQubits - 1)) % kQubits)});
    operation.bits = bits.back().data();
    operation.targets = 2;
    operation.is_adjoint = below(2) == 0;
    operation.entries = constants.size();
    const std::size_t shift = below(4);
    for (std::size_t i = 0; i < 4; ++i) {
      const Number phase = std::polar(1.0, number());
      for (std::size_t j = 0; j < 4; ++j) {
        const bool is_one = j == (i ^ shift);
        constants.push_back(is_one ? phase.real() : 0);
        constants.push_back(is_one ? phase.imag() : 0);
      }
    }
    operations.push_back(operation);
  }

  Program program() const {
    return {operations.data(),
            operations.size(),
            factors.data(),
            factors.size(),
            constants.data(),
            parameters,
            8};
  }
};

Number sign(std::size_t bits) { return __builtin_parityll(bits) != 0 ? -1.0 : 1.0; }

// P |i> is a phase times |i ^ flips>.
std::vector<Number> word(const std::vector<Number>& v, const PauliBits& bits) {
  std::vector<Number> out(kSize);
  const Number phase = std::pow(Number(0, 1), static_cast<int>(bits.y_factors));
  for (std::size_t i = 0; i < kSize; ++i) {
    out[i ^ bits.flips] = phase * sign(i & bits.signs) * v[i];
  }
  return out;
}

void turn(Number (&m)[4], const Factor& factor, double phi) {
  const double c = std::cos(phi), s = std::sin(phi);
  const Number i(0, 1);
  Number by[4] = {c, 0, 0, c};
  switch (factor.kind) {
    case Axis::kX:
      by[1] = by[2] = -i * s;
      break;
    case Axis::kY:
      by[1] = -s;
      by[2] = s;
      break;
    case Axis::kZ:
      by[0] = {c, -s};
      by[3] = {c, s};
      break;
    case Axis::kPhase:
      by[0] = 1;
      by[3] = {c, s};
      break;
    case Axis::kFixed:
      for (int k = 0; k < 4; ++k) by[k] = {factor.real[k], factor.imag[k]};
  }
  const Number old[4] = {m[0], m[1], m[2], m[3]};
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      m[2 * row + column] =
          by[2 * row] * old[column] + by[2 * row + 1] * old[2 + column];
    }
  }
}

std::vector<Number> expected(const Circuit& circuit, const double* parameters) {
  std::vector<Number> v(kSize);
  v[0] = 1;
  for (const Operation& o : circuit.operations) {
    const Factor* const factors = circuit.factors.data() + o.factor;
    const auto phi = [&](std::size_t f) {
      return factors[f].scale *
             (factors[f].kind == Axis::kFixed ? 1 : parameters[factors[f].slot]);
    };
    std::vector<Number> out = v;
    if (o.kind == Kind::kPairs || o.kind == Kind::kPairsThenFlip) {
      Number m[4] = {1, 0, 0, 1};
      for (std::size_t f = 0; f < o.factors; ++f) turn(m, factors[f], phi(f));
      const bool then_flips = o.kind == Kind::kPairsThenFlip;
      const std::size_t mask = then_flips ? o.flips : o.mask;
      const std::size_t value = then_flips ? 0 : o.value;
      for (std::size_t i = 0; i < kSize; ++i) {
        if ((i & mask) != value) continue;
        const std::size_t j = i ^ o.flips;
        out[i] = m[0] * v[i] + m[1] * v[j];
        out[j] = m[2] * v[i] + m[3] * v[j];
        // The tile is the one whose outer bits are 0.
        if (then_flips && o.outer_value == 0 && (i & o.mask) == o.value) {
          std::swap(out[i], out[j]);
        }
      }
    } else if (o.kind == Kind::kPauliRotation) {
      const std::vector<Number> turned = word(v, {o.flips, o.signs, o.y_factors});
      for (std::size_t i = 0; i < kSize; ++i) {
        out[i] = std::cos(phi(0)) * v[i] - Number(0, std::sin(phi(0))) * turned[i];
      }
    } else {
      for (std::size_t i = 0; i < kSize; ++i) {
        const std::size_t high = o.bits[0], low = o.bits[1];
        const std::size_t row = ((i >> high) & 1) << 1 | ((i >> low) & 1);
        out[i] = 0;
        for (std::size_t column = 0; column < 4; ++column) {
          const std::size_t place = o.is_adjoint ? column * 4 + row : row * 4 + column;
          const double* const e = &circuit.constants[o.entries + 2 * place];
          const std::size_t others =
              i & ~(std::size_t{1} << high | std::size_t{1} << low);
          out[i] += Number(e[0], o.is_adjoint ? -e[1] : e[1]) *
                    v[others | (column >> 1) << high | (column & 1) << low];
        }
      }
    }
    v = out;
  }
  return v;
}

double value(const std::vector<Number>& v, const PauliBits& bits) {
  const std::vector<Number> of = word(v, bits);
  double sum = 0;
  for (std::size_t i = 0; i < kSize; ++i) sum += (std::conj(v[i]) * of[i]).real();
  return sum;
}

void hold(const char* what, double found, double wanted, double within) {
  if (std::abs(found - wanted) <= within) return;
  std::printf("%s: %.17g, expected %.17g\n", what, found, wanted);
  std::exit(1);
}

struct Run {
  const Layout& layout;
  Segment segment;
  const Scratch& scratch;
  PauliBits observable;

  // The derivatives of each row, and behind them those along the segment's direction.
  std::vector<double> jacobian(std::size_t rows) const {
    const bool moves = segment.direction != nullptr;
    const auto zero = [&] {
      return Amplitudes{zeros<Real>(kSize * rows), zeros<Real>(kSize * rows)};
    };
    const Ket ket{zero(), moves ? zero() : Amplitudes{}};
    const Amplitudes bras[2] = {zero(), zero()};
    for (std::size_t row = 0; row < rows; ++row)
      static_cast<Real*>(ket.state.real)[row] = 1;
    *scratch.prepared = {};
    checked.forward(layout, &segment, 1, ket, scratch);
    double ones[kMostLanes];
    for (double& one : ones) one = 1;
    checked.add_word(layout, observable, ones, bras[0], ket.state);
    if (moves) checked.add_word(layout, observable, ones, bras[1], ket.tangent);
    const std::size_t columns = segment.program->parameters, n_bras = moves ? 2 : 1;
    std::vector<double> found(rows * n_bras * columns + 1);
    checked.backward(layout, &segment, 1, ket, bras, n_bras, found.data(), columns,
                     n_bras * columns, rows, scratch);
    return found;
  }
};

// The derivatives along a direction, against differences of derivatives.
void check_along(Run run, std::vector<double>& parameters, std::size_t rows) {
  const std::size_t columns = run.segment.program->parameters;
  std::vector<double> direction(parameters.size());
  for (double& part : direction) part = number();
  run.segment.direction = direction.data();
  run.segment.direction_stride = columns;
  const std::vector<double> found = run.jacobian(rows);
  run.segment.direction = nullptr;
  const double step = kIsDouble ? 1e-5 : 3e-3;
  const std::vector<double> before = parameters;
  const auto jacobian_at = [&](double by) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] = before[i] + by * direction[i];
    }
    return run.jacobian(rows);
  };
  const auto here = jacobian_at(0), above = jacobian_at(step),
             below = jacobian_at(-step);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t p = 0; p < columns; ++p) {
      const std::size_t i = row * columns + p, j = 2 * row * columns + p;
      hold("derivative beside a tangent", found[j], here[i], kIsDouble ? 1e-12 : 1e-4);
      hold("derivative along a direction", found[j + columns],
           (above[i] - below[i]) / (2 * step), kIsDouble ? 1e-7 : 5e-2);
    }
  }
}

// Checks a random circuit forward and back. With merged operations, which exist for
// tiles only, checks it forward.
void check(bool rows_in_lanes, bool is_merged = false) {
  Circuit circuit;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::size_t kind = below(6);
    kind == 0                ? circuit.add_matrix()
    : kind == 1              ? circuit.add_word()
    : is_merged && kind != 2 ? circuit.add_pairs_then_flip()
                             : circuit.add_pairs();
  }
  const Program program = circuit.program();
  const std::size_t rows = rows_in_lanes ? checked.lanes : 1;
  std::vector<double> parameters(rows * program.parameters + 1);
  for (double& parameter : parameters) parameter = number();
  const Segment segment{&program, 1, parameters.data(), program.parameters, 0};
  const Layout layout{kQubits, rows_in_lanes,
                      kIsDouble ? Precision::kDouble : Precision::kSingle};
  const double near = kIsDouble ? 1e-12 : 2e-5;
  Prepared prepared;
  Scratch scratch;
  const std::size_t room = (program.n_factors + kMostLanes) * kMostLanes;
  scratch.angles = doubles(room);
  scratch.cosines = doubles(room);
  scratch.sines = doubles(room);
  scratch.matrices = doubles(kOperations * 16 * kMostLanes);
  scratch.gathered = doubles(gathered_numbers(2, true) * checked.lanes);
  scratch.prepared = &prepared;
  const Amplitudes ket{zeros<Real>(kSize * rows), zeros<Real>(kSize * rows)};
  const Amplitudes bra{zeros<Real>(kSize * rows), zeros<Real>(kSize * rows)};
  for (std::size_t row = 0; row < rows; ++row) static_cast<Real*>(ket.real)[row] = 1;
  checked.forward(layout, &segment, 1, {ket}, scratch);

  const PauliBits observable = {19, 50, 2};
  double found[kMostLanes], ones[kMostLanes];
  for (double& one : ones) one = 1;
  checked.word_overlap(layout, observable, ket, ket, found);
  std::vector<std::vector<Number>> states;
  for (std::size_t row = 0; row < rows; ++row) {
    states.push_back(expected(circuit, &parameters[row * program.parameters]));
    for (std::size_t i = 0; i < kSize; ++i) {
      hold("real part", at(ket.real, i * rows + row), states[row][i].real(), near);
      hold("imaginary part", at(ket.imag, i * rows + row), states[row][i].imag(), near);
    }
    hold("value", found[row], value(states[row], observable), 10 * near);
  }
  if (is_merged) return;

  checked.add_word(layout, observable, ones, bra, ket);
  std::vector<double> jacobian(rows * program.parameters + 1);
  checked.backward(layout, &segment, 1, {ket}, &bra, 1, jacobian.data(),
                   program.parameters, program.parameters, rows, scratch);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < kSize; ++i) {
      hold("the way back", at(ket.real, i * rows + row), i == 0 ? 1 : 0, near);
      hold("the way back", at(ket.imag, i * rows + row), 0, near);
    }
    double* const own = &parameters[row * program.parameters];
    for (std::size_t p = 0; p < program.parameters; ++p) {
      constexpr double kStep = 1e-4;
      const double before = own[p];
      const auto value_at = [&](double by) {
        own[p] = before + by;
        return value(expected(circuit, own), observable);
      };
      const double wanted = (8 * (value_at(kStep) - value_at(-kStep)) -
                             value_at(2 * kStep) + value_at(-2 * kStep)) /
                            (12 * kStep);
      own[p] = before;
      hold("derivative", jacobian[row * program.parameters + p], wanted,
           kIsDouble ? 1e-9 : 1e-3);
    }
  }
  check_along({layout, segment, scratch, observable}, parameters, rows);
}

}  // namespace
}  // namespace bellhop::engine

int main() {
  for (int circuit = 0; circuit < 50; ++circuit) {
    bellhop::engine::check(false);
    bellhop::engine::check(true);
    bellhop::engine::check(false, /*is_merged=*/true);
  }
  std::printf("%zu lanes\n", bellhop::engine::checked.lanes);
}
