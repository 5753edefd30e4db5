// derivatives/replay.h: runs of the gates that a session has kept, on devices of their
// own: a circuit again with other parameters, or each row of a batch.
//
// With parameters {0.1, 0.2} and the points {{}, {{1, 0.5}}}, replay runs the circuit
// with {0.1, 0.2} and with {0.1, 0.7}.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/batched_view.h"
#include "circuit/session.h"
#include "measurements/measurement_request.h"
#include "threads/thread_team.h"

namespace bellhop {

// What is added to a parameter.
struct Shift {
  std::int32_t number;  // of the parameter, which may be a dynamic-count one
  double amount;

  auto operator<=>(const Shift&) const = default;
};

// Points in the space of parameters at which a circuit is run again.
struct Points {
  std::vector<std::vector<Shift>> shifts;  // of each point
  // If not empty, f64[rows, params]: a shift with a static-count number n goes along
  // row n, instead of along parameter n.
  std::span<const double> basis = {};
  std::size_t steps = 0;  // each run ends after so many steps of the circuit
};

// These functions share the runs among threads. Results do not depend on the number of
// threads. They throw the CircuitError of the first run that fails.

// Runs each row of a batch and measures it. Writes Jacobians too, unless null is given.
void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers);

// Runs the gates that `recorded` keeps, once for each point, and measures each run. Of
// a batch, each row is run at each point.
void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Points& points, const Measuring& measuring, const Helpers& helpers);

// Does the same, but writes the adjoint derivatives of the expectation values instead
// of these, so that `measuring` has no outputs.
void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Points& points, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers);

}  // namespace bellhop
