// states/projections.cc: what measuring a wire does to states of the engine.
#include "states/projections.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace bellhop::engine {
namespace {

template <std::size_t kRun>
using Run = std::integral_constant<std::size_t, kRun>;

// Calls visit(place, n) for the runs of amplitudes that have a wire's bit at `value`.
// How long a short run is, is known when this is compiled: no call for a few numbers.
template <typename Visit>
void for_each_run(const States& states, std::int32_t wire, bool value, Visit&& visit) {
  const std::size_t qubits = states.layout().qubits;
  const auto visit_runs = [&](auto run) {
    for (std::size_t place = value ? std::size_t{run} : 0;
         place < std::size_t{1} << qubits; place += 2 * std::size_t{run}) {
      visit(place, run);
    }
  };
  const std::size_t bit = qubits - 1 - static_cast<std::size_t>(wire);
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

void set_zero(const States& states, const Amplitudes& state, std::int32_t wire,
              bool value) {
  for_each_run(states, wire, value, [&](std::size_t place, auto n) {
    std::fill_n(state.real + place, n, 0.0);
    std::fill_n(state.imag + place, n, 0.0);
  });
}

// Moves the amplitudes with a bit at `from` to those with the other, which they
// replace.
void move(const States& states, const Amplitudes& state, std::int32_t wire, bool from) {
  for_each_run(states, wire, from, [&](std::size_t place, auto n) {
    const std::size_t to = place ^ n;
    for (double* const part : {state.real, state.imag}) {
      std::copy_n(part + place, n, part + to);
      std::fill_n(part + place, n, 0.0);
    }
  });
}

void multiply(const States& states, const Amplitudes& state, double factor) {
  if (factor == 1) return;
  for (std::size_t i = 0; i < std::size_t{1} << states.layout().qubits; ++i) {
    state.real[i] *= factor;
    state.imag[i] *= factor;
  }
}

bool moves(const Projection& projection) {
  return projection.reset && projection.outcome;
}

}  // namespace

std::array<double, 2> probabilities(const States& states, const Amplitudes& ket,
                                    std::int32_t wire) {
  std::array<double, 2> found{};
  for (const bool value : {false, true}) {
    double sum = 0;
    for_each_run(states, wire, value, [&](std::size_t place, auto n) {
      for (std::size_t i = place; i < place + n; ++i) {
        sum += ket.real[i] * ket.real[i] + ket.imag[i] * ket.imag[i];
      }
    });
    found[value] = sum;
  }
  return found;
}

void project(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<double>* removed) {
  const auto [wire, outcome, reset, factor] = projection;
  if (removed != nullptr) {
    const std::size_t before = removed->size();
    removed->resize(before + (std::size_t{1} << states.layout().qubits));
    double* next = removed->data() + before;
    for_each_run(states, wire, !outcome, [&](std::size_t place, auto n) {
      for (const double* const part : {ket.real, ket.imag}) {
        std::copy_n(part + place, n, next);
        next += n;
      }
    });
  }
  if (moves(projection)) {
    move(states, ket, wire, true);
  } else {
    set_zero(states, ket, wire, !outcome);
  }
  multiply(states, ket, factor);
}

void restore(const States& states, const Amplitudes& ket, const Projection& projection,
             std::vector<double>& removed) {
  const auto [wire, outcome, reset, factor] = projection;
  if (moves(projection)) move(states, ket, wire, false);
  multiply(states, ket, 1 / factor);
  const std::size_t first = removed.size() - (std::size_t{1} << states.layout().qubits);
  const double* next = removed.data() + first;
  for_each_run(states, wire, !outcome, [&](std::size_t place, auto n) {
    for (double* const part : {ket.real, ket.imag}) {
      std::copy_n(next, n, part + place);
      next += n;
    }
  });
  removed.resize(first);
}

void apply_adjoint(const States& states, const Amplitudes& bra,
                   const Projection& projection) {
  multiply(states, bra, projection.scale);
  if (moves(projection)) return move(states, bra, projection.wire, false);
  set_zero(states, bra, projection.wire, !projection.outcome);
}

}  // namespace bellhop::engine
