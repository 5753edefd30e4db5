// states/projections.cc: what measuring a wire does to states of the engine.
#include "states/projections.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "devices/error.h"
#include "interpreter/signals.h"

namespace bellhop::engine {
namespace {

template <std::size_t kRun>
using Run = std::integral_constant<std::size_t, kRun>;

// The bit of an amplitude's place that is a wire's. Rows in lanes are further qubits,
// the lowest ones.
std::size_t bit_of(const States& states, std::int32_t wire) {
  const auto of_lanes = static_cast<std::size_t>(std::countr_zero(states.lanes()));
  return states.layout().qubits - 1 - static_cast<std::size_t>(wire) + of_lanes;
}

// Calls visit(place, n) for the runs of amplitudes that have a wire's bit at `value`;
// for a long run in pieces, and check_signals between pieces. The length of a short run
// is known when this is compiled: no call for a few numbers.
template <typename Visit>
void for_each_run(const States& states, std::int32_t wire, bool value, Visit&& visit) {
  const std::size_t bit = bit_of(states, wire);
  const std::size_t size = states.lanes() << states.layout().qubits;
  const auto visit_runs = [&](auto run) {
    const std::size_t length = run;
    const std::size_t first = value ? length : 0;
    if (2 * length <= kBetweenChecks) {
      return for_each_piece(size, [&](std::size_t begin, std::size_t end) {
        for (std::size_t place = begin + first; place < end; place += 2 * length) {
          visit(place, run);
        }
      });
    }
    for (std::size_t place = first; place < size; place += 2 * length) {
      for_each_piece(length, [&](std::size_t begin, std::size_t end) {
        visit(place + begin, end - begin);
      });
    }
  };
  switch (bit) {
    case 0:
      return visit_runs(Run<1>{});
    case 1:
      return visit_runs(Run<2>{});
    case 2:
      return visit_runs(Run<4>{});
    default:
      return visit_runs(std::size_t{1} << bit);
  }
}

template <typename Real>
void set_zero(const States& states, const AmplitudesOf<Real>& state, std::int32_t wire,
              bool value) {
  for_each_run(states, wire, value, [&](std::size_t place, auto n) {
    std::fill_n(state.real + place, n, Real{});
    std::fill_n(state.imag + place, n, Real{});
  });
}

// Moves the amplitudes with a bit at `from` to those with the other, which they
// replace.
template <typename Real>
void move(const States& states, const AmplitudesOf<Real>& state, std::int32_t wire,
          bool from) {
  const std::size_t distance = std::size_t{1} << bit_of(states, wire);
  for_each_run(states, wire, from, [&](std::size_t place, auto n) {
    const std::size_t to = place ^ distance;
    for (Real* const part : {state.real, state.imag}) {
      std::copy_n(part + place, n, part + to);
      std::fill_n(part + place, n, Real{});
    }
  });
}

bool moves(const Projection& projection) {
  return projection.reset && projection.outcome;
}

// Bytes of half a state's real and imaginary parts.
template <typename Real>
std::size_t bytes_removed(const States& states) {
  return (sizeof(Real) * states.lanes()) << states.layout().qubits;
}

}  // namespace

std::array<double, 2> probabilities(const States& states, const Amplitudes& ket,
                                    std::int32_t wire, std::size_t lane) {
  std::array<double, 2> found{};
  const auto add_up = [&](auto numbers) {
    for (const bool value : {false, true}) {
      double sum = 0;
      for_each_run(states, wire, value, [&](std::size_t place, auto n) {
        for (std::size_t i = place + lane; i < place + n; i += states.lanes()) {
          const double real = numbers.real[i], imag = numbers.imag[i];
          sum += real * real + imag * imag;
        }
      });
      found[value] = sum;
    }
  };
  with_numbers(states.layout(), add_up, ket);
  return found;
}

void project(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<std::byte>* removed) {
  const auto [wire, outcome, reset, factor, _] = projection;
  const auto remove = [&, wire = wire,
                       outcome = outcome]<typename Real>(AmplitudesOf<Real> numbers) {
    if (removed != nullptr) {
      const std::size_t before = removed->size();
      removed->resize(before + bytes_removed<Real>(states));
      Real* next = reinterpret_cast<Real*>(removed->data() + before);
      for_each_run(states, wire, !outcome, [&](std::size_t place, auto n) {
        for (const Real* const part : {numbers.real, numbers.imag}) {
          std::copy_n(part + place, n, next);
          next += n;
        }
      });
    }
    if (moves(projection)) {
      move(states, numbers, wire, true);
    } else {
      set_zero(states, numbers, wire, !outcome);
    }
  };
  with_numbers(states.layout(), remove, ket);
  states.multiply(ket, factor);
}

void restore(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<std::byte>& removed) {
  const auto put_back = [&]<typename Real>(AmplitudesOf<Real> numbers) {
    const auto [wire, outcome, reset, factor, _] = projection;
    if (moves(projection)) move(states, numbers, wire, false);
    states.multiply(ket, 1 / factor);
    if (removed.size() < bytes_removed<Real>(states)) {
      throw CircuitError(
          "internal error: the amplitudes before a projection were not stored. Please "
          "report this as a bug in Bellhop.");
    }
    const std::size_t first = removed.size() - bytes_removed<Real>(states);
    const Real* next = reinterpret_cast<const Real*>(removed.data() + first);
    for_each_run(states, wire, !outcome, [&](std::size_t place, auto n) {
      for (Real* const part : {numbers.real, numbers.imag}) {
        std::copy_n(next, n, part + place);
        next += n;
      }
    });
    removed.resize(first);
  };
  with_numbers(states.layout(), put_back, ket);
}

void apply_adjoint(const States& states, const Amplitudes& bra,
                   const Projection& projection) {
  states.multiply(bra, projection.scale);
  const auto go_back = [&](auto numbers) {
    if (moves(projection)) return move(states, numbers, projection.wire, false);
    set_zero(states, numbers, projection.wire, !projection.outcome);
  };
  with_numbers(states.layout(), go_back, bra);
}

}  // namespace bellhop::engine
