// states/observable.h: apply observables to states of the engine.
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
  std::size_t rows;  // number of rows; further lanes repeat the last row
};

// Returns whether the observable may have different matrices in each row. Such rows
// must be executed one by one; coefficients may differ between lanes.
bool differs_by_row(const std::vector<ObservableStep>& steps);

// Adds factor * O ket to `into`, with a factor for each lane. May overwrite the state
// vectors from index `free` on.
void add(const Observable& observable, const double* factor, States& states,
         const Amplitudes& ket, const Amplitudes& into, std::size_t free);

// Computes bra = O ket. May overwrite the state vectors from index `free` on.
void apply(const Observable& observable, States& states, const Amplitudes& ket,
           const Amplitudes& bra, std::size_t free);

// Writes <ket|O|ket> for each lane. May overwrite the state vectors from index `free`
// on.
void expectation(const Observable& observable, States& states, const Amplitudes& ket,
                 std::size_t free, Lanewise& out);

// Writes Re <bra|ket> for each lane.
void real_overlap(const States& states, const Amplitudes& bra, const Amplitudes& ket,
                  Lanewise& out);

}  // namespace bellhop::engine
