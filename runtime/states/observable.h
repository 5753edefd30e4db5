// states/observable.h: observables applied to states of the engine.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "circuit/per_row.h"
#include "measurements/measurement_list.h"
#include "states/states.h"

namespace bellhop::engine {

// An observable with its numbers, those of the rows from `row` on in the lanes.
struct Observable {
  const std::vector<ObservableStep>& steps;
  const std::vector<PauliTerm>& terms;  // the same, if it is a sum of Pauli words
  const PerRow<std::span<const double>>& data;
  std::size_t row;
  std::size_t rows;  // how many; the other lanes repeat the last
};

// Whether an observable differs between rows in more than coefficients, so that rows
// have to be worked on one by one.
bool differs_by_row(const std::vector<ObservableStep>& steps);

// bra = O ket. `free` is the number of the first state that may be overwritten.
void apply(const Observable& observable, States& states, const Amplitudes& ket,
           const Amplitudes& bra, std::size_t free);

// <ket|O|ket>, one number for each lane.
void expectation(const Observable& observable, States& states, const Amplitudes& ket,
                 std::size_t free, double* out);

// Re <bra|ket>, one number for each lane.
void real_overlap(const States& states, const Amplitudes& bra, const Amplitudes& ket,
                  double* out);

}  // namespace bellhop::engine
