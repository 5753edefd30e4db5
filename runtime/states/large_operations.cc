// states/large_operations.cc: operations that go through the whole state.
#include "states/large_operations.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "arrays/large_memory.h"
#include "devices/memory_limits.h"
#include "interpreter/signals.h"
#include "threads/thread_team.h"

namespace bellhop::engine {
namespace {

using Kind = Operation::Kind;

// Work is shared in parts of at least kAmplitudesOfSharedPart amplitudes, and in at
// most kMostSharedParts parts.
constexpr std::size_t kAmplitudesOfSharedPart = std::size_t{1} << 14;
constexpr std::size_t kMostSharedParts = 64;
constexpr double kNanosecondsOfProduct = 0.2;

// `size` is a power of two, and so is the number of parts.
std::size_t shared_parts(std::size_t size) {
  return std::clamp<std::size_t>(size / kAmplitudesOfSharedPart, 1, kMostSharedParts);
}

// Calls work(first, count, part) for parts of `size`, on the threads that are lent to
// the states. An item takes one thread about `nanoseconds`.
template <typename Work>
void for_each_shared_part(std::size_t size, std::size_t parts, const States& states,
                          double nanoseconds, const Work& work) {
  const std::size_t share = size / parts;
  states.announce_work(nanoseconds * static_cast<double>(size));
  states.share(parts, [&]() -> RowWorker {
    return [&work, share](std::size_t part) { work(part * share, share, part); };
  });
}

// Indices whose bits are taken apart and put together elsewhere, 2**kLowBits at a time.
class BitMap {
 public:
  static constexpr std::size_t kLowBits = 8;

  // Bit from[i] of an index becomes bit to[i].
  BitMap(const std::vector<std::uint8_t>& from, const std::vector<std::uint8_t>& to)
      : from_(from), to_(to) {
    for (std::size_t i = 0; i < low_.size(); ++i) low_[i] = map(i);
    is_same_ = from == to;
  }
  // Whether the map is the identity on indices without other bits.
  bool is_same() const { return is_same_; }
  std::size_t map_high(std::size_t index) const {
    return map(index & ~(low_.size() - 1));
  }
  std::size_t map_low(std::size_t index) const {
    return low_[index & (low_.size() - 1)];
  }

 private:
  std::size_t map(std::size_t index) const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < from_.size(); ++i) {
      found |= ((index >> from_[i]) & 1) << to_[i];
    }
    return found;
  }

  std::vector<std::uint8_t> from_, to_;
  std::array<std::size_t, std::size_t{1} << kLowBits> low_;
  bool is_same_ = false;
};

// The bits of an operation's index, and the qubits that they are.
struct TargetBits {
  explicit TargetBits(const Operation& operation) {
    for (std::size_t t = operation.targets; t-- > 0;) {
      of_index.push_back(static_cast<std::uint8_t>(operation.targets - 1 - t));
      of_state.push_back(operation.bits[t]);
    }
  }
  std::vector<std::uint8_t> of_index, of_state;
};

// Calls visit(i, map(i)) for first <= i < first + count, both multiples of the size of
// a table or less.
template <typename Visit>
void for_each_mapped(const BitMap& map, std::size_t first, std::size_t count,
                     const Visit& visit) {
  constexpr std::size_t kTable = std::size_t{1} << BitMap::kLowBits;
  if (map.is_same()) {
    for (std::size_t i = first; i < first + count; ++i) visit(i, i);
    return;
  }
  for (std::size_t i = first; i < first + count;) {
    const std::size_t high = map.map_high(i);
    const std::size_t end = std::min(first + count, (i / kTable + 1) * kTable);
    for (; i < end; ++i) visit(i, high | map.map_low(i));
  }
}

// Writes the prepared amplitudes; all amplitudes at nonzero values of the other qubits
// are zero already.
void prepare(const Operation& operation, const GivenAmplitudes& given,
             const States& states, const Amplitudes& state) {
  const TargetBits bits(operation);
  const std::size_t size = std::size_t{1} << operation.targets;
  if (operation.targets < states.layout().qubits) {
    with_numbers(
        states.layout(), [](auto numbers) { numbers.real[0] = 0; }, state);  // was one
  }
  if (bits.of_index == bits.of_state) {
    return write_in_order(given, size, states, state);
  }
  const BitMap map(bits.of_index, bits.of_state);
  const auto write = [&]<typename Real>(AmplitudesOf<Real> numbers) {
    given.with_parts([&](const auto& real_of, const auto& imag_of) {
      for_each_shared_part(
          size, shared_parts(size), states, kNanosecondsOfMappedAmplitude,
          [&](std::size_t first, std::size_t count, std::size_t) {
            for_each_mapped(map, first, count, [&](std::size_t i, std::size_t k) {
              numbers.real[k] = static_cast<Real>(real_of(i));
              numbers.imag[k] = static_cast<Real>(imag_of(i));
            });
          });
    });
  };
  with_numbers(states.layout(), write, state);
}

// At the beginning a bra is the derivative by the conjugated amplitudes.
void add_derivatives_by_amplitudes(const Operation& operation, const States& states,
                                   std::span<const Amplitudes> bras, double* jacobian,
                                   std::size_t columns) {
  const TargetBits bits(operation);
  const BitMap map(bits.of_index, bits.of_state);
  const std::size_t size = std::size_t{1} << operation.targets;
  for (std::size_t b = 0; b < bras.size(); ++b) {
    double* const row = jacobian + b * columns + operation.entries;
    const auto add = [&](auto bra) {
      for_each_shared_part(
          size, shared_parts(size), states, kNanosecondsOfMappedAmplitude,
          [&](std::size_t first, std::size_t count, std::size_t) {
            for_each_mapped(map, first, count, [&](std::size_t i, std::size_t k) {
              if (operation.is_real) {
                row[i] += 2.0 * static_cast<double>(bra.real[k]);
                return;
              }
              row[2 * i] += 2.0 * static_cast<double>(bra.real[k]);
              row[2 * i + 1] += 2.0 * static_cast<double>(bra.imag[k]);
            });
          });
    };
    with_numbers(states.layout(), add, bras[b]);
  }
}

// A diagonal at its parameters.
class Diagonal {
 public:
  Diagonal(const Operation& operation, const double* angles, const States& states)
      : operation_(operation),
        states_(states),
        map_(TargetBits(operation).of_state, TargetBits(operation).of_index),
        size_(std::size_t{1} << operation.targets) {
    constexpr std::size_t kRound = 16;
    const std::size_t padded = (size_ + kRound - 1) / kRound * kRound;
    std::vector<double> given(padded);
    std::copy_n(angles, size_, given.begin());
    cosines_.resize(padded);
    sines_.resize(padded);
    states.sweeps().turn(given.data(), padded, cosines_.data(), sines_.data());
    if (!operation.is_adjoint) return;
    for (double& sine : sines_) sine = -sine;
  }

  void apply(bool is_adjoint, const Amplitudes& state) const {
    const double sign = is_adjoint ? -1 : 1;
    with_numbers(
        states_.layout(),
        [&]<typename Real>(AmplitudesOf<Real> numbers) {
          for_each_part_of_state([&](std::size_t i, std::size_t j, std::size_t) {
            const Real c = static_cast<Real>(cosines_[j]);
            const Real s = static_cast<Real>(sign * sines_[j]);
            const Real real = numbers.real[i], imag = numbers.imag[i];
            numbers.real[i] = c * real - s * imag;
            numbers.imag[i] = c * imag + s * real;
          });
        },
        state);
  }

  // Adds the tangent of a state after the diagonal, whose angles have the tangents
  // `angle_tangents`: tangent += i angle_tangent state.
  void add_change(const double* angle_tangents, bool is_adjoint,
                  const Amplitudes& state, const Amplitudes& tangent) const {
    const double sign = is_adjoint != operation_.is_adjoint ? -1 : 1;
    with_numbers(
        states_.layout(),
        [&]<typename Real>(AmplitudesOf<Real> of, AmplitudesOf<Real> to) {
          for_each_part_of_state([&](std::size_t i, std::size_t j, std::size_t) {
            const Real rate = static_cast<Real>(sign * angle_tangents[j]);
            to.real[i] -= rate * of.imag[i];
            to.imag[i] += rate * of.real[i];
          });
        },
        state, tangent);
  }

  // Adds the derivatives by the angles, -2 Im <bra|ket> of each index.
  void add_derivatives(const Amplitudes& bra, const Amplitudes& ket,
                       double* derivatives) const {
    const std::size_t parts = sums_of_parts();
    std::vector<double> sums(parts * size_);
    with_numbers(
        states_.layout(),
        [&](auto b, auto k) {
          for_each_part_of_state([&](std::size_t i, std::size_t j, std::size_t part) {
            const double imag = static_cast<double>(b.real[i]) * k.imag[i] -
                                static_cast<double>(b.imag[i]) * k.real[i];
            sums[part * size_ + j] += imag;
          });
        },
        bra, ket);
    const double scale = operation_.is_adjoint ? 2 : -2;
    for (std::size_t n = 0; n < sums.size(); ++n) {
      derivatives[n % size_] += scale * sums[n];
    }
  }

 private:
  // Number of parts; their sums together take no more memory than the state.
  std::size_t sums_of_parts() const {
    return std::min(shared_parts(engine::size_of(states_)),
                    engine::size_of(states_) / size_);
  }

  // Calls visit(index, index of the angle, part) where the controls are as they must
  // be.
  template <typename Visit>
  void for_each_part_of_state(const Visit& visit) const {
    for_each_shared_part(
        engine::size_of(states_), sums_of_parts(), states_,
        kNanosecondsOfMappedAmplitude,
        [&](std::size_t first, std::size_t count, std::size_t part) {
          if (operation_.mask == 0) {
            for_each_mapped(map_, first, count,
                            [&](std::size_t i, std::size_t j) { visit(i, j, part); });
            return;
          }
          for_each_mapped(map_, first, count, [&](std::size_t i, std::size_t j) {
            if ((i & operation_.mask) == operation_.value) {
              visit(i, j, part);
            }
          });
        });
  }

  const Operation& operation_;
  const States& states_;
  const BitMap map_;
  const std::size_t size_;
  std::vector<double> cosines_, sines_;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

void apply_matrix(const Operation& operation, const double* entries, bool is_adjoint,
                  const States& states, const Amplitudes& state) {
  std::uint64_t fixed = operation.mask;
  for (std::size_t t = 0; t < operation.targets; ++t) {
    fixed |= std::uint64_t{1} << operation.bits[t];
  }
  const auto n_fixed = static_cast<std::size_t>(std::popcount(fixed));
  const std::size_t columns = std::size_t{1} << (states.layout().qubits - n_fixed);
  // A part has as many columns as the kernel takes at a time, or more.
  constexpr std::size_t kColumnsOfPart = 64;
  const std::size_t parts =
      std::clamp<std::size_t>(columns / kColumnsOfPart, 1, kMostSharedParts);
  const std::size_t bytes = states.sweeps().wide_matrix_bytes(operation.targets);
  const double products = std::ldexp(1.0, 2 * static_cast<int>(operation.targets));
  for_each_shared_part(
      columns, parts, states, products * kNanosecondsOfProduct,
      [&](std::size_t first, std::size_t count, std::size_t) {
        const std::unique_ptr<void, Free> memory(allocate_aligned(bytes));
        if (memory == nullptr) throw_no_memory(bytes);
        states.sweeps().apply_wide_matrix(
            states.layout().qubits, operation.bits, operation.targets, operation.mask,
            operation.value, entries, is_adjoint, state, first, count, memory.get());
      });
}

const double* entries_of(const Operation& operation, const TiledProgram& program) {
  return (operation.is_constant ? program.whole.constants : program.parameters) +
         operation.entries;
}

// The amplitudes of a preparation.
GivenAmplitudes given_by(const Operation& operation, const TiledProgram& program) {
  if (!operation.is_constant && program.singles != nullptr) {
    return {nullptr, program.singles + operation.entries, operation.is_real};
  }
  return {entries_of(operation, program), nullptr, operation.is_real};
}

// How its parameters change; null where they do not.
const double* dots_of(const Operation& operation, const TiledProgram& program) {
  const bool moves = !operation.is_constant && program.direction != nullptr;
  return moves ? program.direction + operation.entries : nullptr;
}

// Applies a diagonal, or its adjoint, to a state with a tangent or without.
void turn(const Diagonal& diagonal, const double* dots, bool is_adjoint,
          const Ket& ket) {
  diagonal.apply(is_adjoint, ket.state);
  if (!ket.moves()) return;
  diagonal.apply(is_adjoint, ket.tangent);
  if (dots != nullptr) diagonal.add_change(dots, is_adjoint, ket.state, ket.tangent);
}

// Calls act with each bra, and its tangent if the ket has one.
template <typename Act>
void for_each_bra(std::span<const Amplitudes> bras, const Ket& ket, const Act& act) {
  const std::size_t step = ket.moves() ? 2 : 1;
  for (std::size_t b = 0; b < bras.size(); b += step) {
    act(b, ket.moves() ? Ket{bras[b], bras[b + 1]} : Ket{bras[b]});
  }
}

}  // namespace

std::optional<GivenAmplitudes> all_in_order(const Operation& operation,
                                            const TiledProgram& program,
                                            const States& states) {
  if (operation.kind != Kind::kState || operation.is_constant ||
      operation.targets < states.layout().qubits) {
    return std::nullopt;
  }
  const TargetBits bits(operation);
  if (bits.of_index != bits.of_state) return std::nullopt;
  return given_by(operation, program);
}

void write_in_order(const GivenAmplitudes& given, std::size_t count,
                    const States& states, const Amplitudes& state) {
  with_numbers(
      states.layout(),
      [&](auto numbers) {
        for_each_shared_part(
            count, shared_parts(count), states, kNanosecondsOfMappedAmplitude,
            [&](std::size_t first, std::size_t share, std::size_t) {
              given.copy(first, share, numbers.real + first, numbers.imag + first);
            });
      },
      state);
}

void apply_large(const Operation& operation, const TiledProgram& program,
                 const States& states, const Ket& ket) {
  const double* const dots = dots_of(operation, program);
  switch (operation.kind) {
    case Kind::kState:
      if (dots != nullptr) {
        prepare(operation, {dots, nullptr, operation.is_real}, states, ket.tangent);
      }
      return prepare(operation, given_by(operation, program), states, ket.state);
    case Kind::kDiagonal:
      return turn(Diagonal(operation, entries_of(operation, program), states), dots,
                  /*is_adjoint=*/false, ket);
    default:
      for (const Amplitudes& state : {ket.state, ket.tangent}) {
        if (state.real == nullptr) continue;
        apply_matrix(operation, entries_of(operation, program), operation.is_adjoint,
                     states, state);
      }
  }
}

void go_back_large(const Operation& operation, const TiledProgram& program,
                   const States& states, const Ket& ket,
                   std::span<const Amplitudes> bras, double* jacobian,
                   std::size_t columns) {
  const bool differentiates = jacobian != nullptr && !operation.is_constant;
  switch (operation.kind) {
    case Kind::kState:
      // There is nothing before it to go back to.
      if (differentiates) {
        add_derivatives_by_amplitudes(operation, states, bras, jacobian, columns);
      }
      return;
    case Kind::kDiagonal: {
      const Diagonal diagonal(operation, entries_of(operation, program), states);
      const double* const dots = dots_of(operation, program);
      for_each_bra(bras, ket, [&](std::size_t b, const Ket& bra) {
        if (differentiates) {
          double* const row = jacobian + b * columns + operation.entries;
          diagonal.add_derivatives(bra.state, ket.state, row);
          if (ket.moves()) {
            diagonal.add_derivatives(bra.tangent, ket.state, row + columns);
            diagonal.add_derivatives(bra.state, ket.tangent, row + columns);
          }
        }
        turn(diagonal, dots, /*is_adjoint=*/true, bra);
      });
      return turn(diagonal, dots, /*is_adjoint=*/true, ket);
    }
    default:
      for (const Amplitudes& state : {ket.state, ket.tangent}) {
        if (state.real == nullptr) continue;
        apply_matrix(operation, entries_of(operation, program), !operation.is_adjoint,
                     states, state);
      }
      for (const Amplitudes& bra : bras) {
        apply_matrix(operation, entries_of(operation, program), !operation.is_adjoint,
                     states, bra);
      }
  }
}

}  // namespace bellhop::engine
