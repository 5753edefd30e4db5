// derivatives/replay.h: gates that were kept, run on devices of their own: those of a
// recorded circuit with other parameters, and those of each row of a batch.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "measurements/measuring.h"
#include "threads/row_team.h"

namespace bellhop {

// What is added to a parameter, which may be a dynamic-count one.
struct Shift {
  std::int32_t number;
  double amount;

  auto operator<=>(const Shift&) const = default;
};

// Points at which a circuit is run again: each has shifts of its own. The first `steps`
// gates and projections are those of the circuit.
struct Points {
  std::vector<std::vector<Shift>> shifts;
  // Where it is not empty, a shift of a static-count number is along that row of it.
  std::span<const double> basis = {};
  std::size_t steps = 0;
};

// All of these share the runs among threads, and how many that are changes no result.
// They throw CircuitError, that of the first run that fails.

// Runs each row of a batch and measures it; with `jacobians`, takes derivatives too.
void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers);

// Runs the gates that `recorded` was applied again, once for each point, and measures;
// where it is a batch, each of its rows so many times.
void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Points& points, const Measuring& measuring, const Helpers& helpers);

// The same for the adjoint derivatives of expectation values, which `measuring` has no
// outputs for.
void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Points& points, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers);

}  // namespace bellhop
