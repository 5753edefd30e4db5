// derivatives/replay.h: gates that were kept, run on devices of their own: those of a
// recorded circuit with other parameters, and those of each row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "measurements/measuring.h"
#include "threads/row_team.h"

namespace bellhop {

// Points at which a circuit is run again: in row r, amounts[r * order + k] is added to
// parameter indices[r * order + k], for each k < order; it may be a dynamic-count one.
// The first `steps` gates and projections are those of the circuit.
struct Shifts {
  std::span<const std::int32_t> indices;
  std::span<const double> amounts;
  std::size_t rows = 0;
  std::size_t order = 0;
  std::size_t steps = 0;
};

// All of these share the runs among threads, and how many that are changes no result.
// They throw CircuitError, that of the first run that fails.

// Runs each row of a batch and measures it; with `jacobians`, takes derivatives too.
void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers);

// Runs the gates that `recorded` was applied again, once for each row of `shifts`, and
// measures; where it is a batch, each of its rows so many times.
void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Shifts& shifts, const Measuring& measuring, const Helpers& helpers);

// The same for the adjoint derivatives of expectation values, which `measuring` has no
// outputs for.
void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Shifts& shifts, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers);

}  // namespace bellhop
