// states/observable.cc: apply observables to states of the engine.
#include "states/observable.h"

#include <algorithm>
#include <array>

#include "gates/pauli_bits.h"
#include "gates/wire_gates.h"

namespace bellhop::engine {
namespace {

using StepKind = ObservableStep::Kind;
// Matrices of the named observables, by ObsId.
constexpr const Matrix2* kMatrices[] = {&kIdentity, &kPauliX, &kPauliY, &kPauliZ,
                                        &kHadamard};

std::uint8_t bit_of(std::int64_t wire, const States& states) {
  return static_cast<std::uint8_t>(states.layout().qubits - 1 -
                                   static_cast<std::size_t>(wire));
}

// Returns the number at an index of the data, for the row in each lane.
Lanewise numbers_at(const Observable& observable, std::size_t index,
                    const States& states) {
  Lanewise out{};
  for (std::size_t lane = 0; lane < states.lanes(); ++lane) {
    const std::size_t row = observable.row + std::min(lane, observable.rows - 1);
    out[lane] = observable.data.of(row)[index];
  }
  return out;
}

// Returns the coefficient of a term for each lane.
Lanewise coefficient_of(const Observable& observable, const PauliTerm& term,
                        const States& states) {
  if (term.coefficient != PauliTerm::kOne) {
    return numbers_at(observable, static_cast<std::size_t>(term.coefficient), states);
  }
  Lanewise ones;
  ones.fill(1.0);
  return ones;
}

PauliBits bits_of(const PauliTerm& term, const States& states) {
  PauliBits bits;
  for (std::size_t i = 0; i < term.wires.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << bit_of(term.wires[i], states);
    const ObsId factor = term.factors[i];
    if (factor == ObsId::PauliX || factor == ObsId::PauliY) bits.flips |= bit;
    if (factor == ObsId::PauliY || factor == ObsId::PauliZ) bits.signs |= bit;
    if (factor == ObsId::PauliY) ++bits.y_factors;
  }
  return bits;
}

std::vector<WeightedWord> words_of(const Observable& observable, const States& states) {
  std::vector<WeightedWord> words;
  words.reserve(observable.terms.size());
  for (const PauliTerm& term : observable.terms) {
    words.push_back({bits_of(term, states), coefficient_of(observable, term, states)});
  }
  return words;
}

// Applies an observable whose steps are in postfix order: operands precede the step
// that combines them.
class Application {
 public:
  Application(const Observable& observable, States& states)
      : observable_(observable), states_(states) {}

  // Applies the observable that ends with step `last`, in place; returns the index of
  // the step before it.
  std::ptrdiff_t apply(std::ptrdiff_t last, const Amplitudes& state, std::size_t free) {
    const ObservableStep& step = observable_.steps[static_cast<std::size_t>(last)];
    switch (step.kind) {
      case StepKind::kNamed:
        apply_matrix(step.wires,
                     reinterpret_cast<const double*>(
                         kMatrices[static_cast<std::size_t>(step.id)]->data()),
                     state);
        return last - 1;
      case StepKind::kHermitian:
        apply_matrix(step.wires,
                     observable_.data.of(observable_.row).data() + step.data, state);
        return last - 1;
      case StepKind::kTensor:
        --last;
        for (std::size_t i = 0; i < step.operands; ++i) last = apply(last, state, free);
        return last;
      case StepKind::kCombination:
        return apply_sum(step, last - 1, state, free);
    }
    return last - 1;
  }

 private:
  std::ptrdiff_t apply_sum(const ObservableStep& step, std::ptrdiff_t last,
                           const Amplitudes& state, std::size_t free) {
    const Amplitudes before = states_.get(free), part = states_.get(free + 1);
    states_.copy(state, before);
    states_.set_zero(state);
    for (std::size_t i = step.operands; i-- > 0;) {
      states_.copy(before, part);
      last = apply(last, part, free + 2);
      const Lanewise factor = numbers_at(observable_, step.data + i, states_);
      states_.sweeps().add_word(states_.layout(), {}, factor.data(), state, part);
    }
    return last;
  }

  void apply_matrix(const std::vector<std::int64_t>& wires, const double* entries,
                    const Amplitudes& state) {
    bits_.clear();
    for (const std::int64_t wire : wires) bits_.push_back(bit_of(wire, states_));
    states_.fit_matrix(wires.size());
    states_.sweeps().apply_matrix(states_.layout(), bits_.data(), wires.size(), entries,
                                  state, states_.scratch());
  }

  const Observable& observable_;
  States& states_;
  std::vector<std::uint8_t> bits_;
};

}  // namespace

bool differs_by_row(const std::vector<ObservableStep>& steps) {
  return std::ranges::any_of(steps, [](const ObservableStep& step) {
    return step.kind == StepKind::kHermitian;
  });
}

void real_overlap(const States& states, const Amplitudes& bra, const Amplitudes& ket,
                  Lanewise& out) {
  WeightedWord one;
  one.weight.fill(1.0);
  out = overlap_of_words({&one, 1}, states, bra, ket);
}

void apply(const Observable& observable, States& states, const Amplitudes& ket,
           const Amplitudes& bra, std::size_t free) {
  if (observable.terms.empty()) {
    states.copy(ket, bra);
    Application(observable, states)
        .apply(static_cast<std::ptrdiff_t>(observable.steps.size()) - 1, bra, free);
    return;
  }
  Lanewise ones;
  ones.fill(1.0);
  states.set_zero(bra);
  add(observable, ones.data(), states, ket, bra, free);
}

void add(const Observable& observable, const double* factor, States& states,
         const Amplitudes& ket, const Amplitudes& into, std::size_t free) {
  if (observable.terms.empty()) {
    const Amplitudes part = states.get(free);
    apply(observable, states, ket, part, free + 1);
    return states.sweeps().add_word(states.layout(), {}, factor, into, part);
  }
  std::vector<WeightedWord> words = words_of(observable, states);
  for (WeightedWord& word : words) {
    for (std::size_t lane = 0; lane < states.lanes(); ++lane) {
      word.weight[lane] *= factor[lane];
    }
  }
  add_words(words, states, into, ket);
}

void expectation(const Observable& observable, States& states, const Amplitudes& ket,
                 std::size_t free, Lanewise& out) {
  if (observable.terms.empty()) {
    const Amplitudes bra = states.get(free);
    apply(observable, states, ket, bra, free + 1);
    return real_overlap(states, bra, ket, out);
  }
  out = overlap_of_words(words_of(observable, states), states, ket, ket);
}

}  // namespace bellhop::engine
