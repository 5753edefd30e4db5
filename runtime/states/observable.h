// states/observable.h: observables applied to states of the engine.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "circuit/batched_view.h"
#include "measurements/measurement_list.h"
#include "states/states.h"
#include "states/tiles.h"

namespace bellhop::engine {

// An observable with its coefficients and matrices, for the rows whose states are in
// the lanes.
struct Observable {
  const std::vector<ObservableStep>& steps;
  const std::vector<PauliTerm>& terms;  // the same, if it is a sum of Pauli words
  const PerRow<std::span<const double>>& data;
  std::size_t row;   // the row in the first lane
  std::size_t rows;  // in so many lanes; further lanes repeat the last of these rows
};

// Whether the observable may have other matrices in each row. If it has, rows must be
// run one by one; coefficients may differ between lanes.
bool differs_by_row(const std::vector<ObservableStep>& steps);

// Adds factor * O ket to `into`, with a factor for each lane. The states from number
// `free` on may be overwritten.
void add(const Observable& observable, const double* factor, States& states,
         const Amplitudes& ket, const Amplitudes& into, std::size_t free);

// Computes bra = O ket. The states from number `free` on may be overwritten.
void apply(const Observable& observable, States& states, const Amplitudes& ket,
           const Amplitudes& bra, std::size_t free);

// Writes <ket|O|ket> for each lane.
void expectation(const Observable& observable, States& states, const Amplitudes& ket,
                 std::size_t free, Lanewise& out);

// Writes Re <bra|ket> for each lane.
void real_overlap(const States& states, const Amplitudes& bra, const Amplitudes& ket,
                  Lanewise& out);

}  // namespace bellhop::engine
