// derivatives/replay.h: execute the steps that a session has stored on other devices: a
// circuit with other parameters, or each row of a batch.
//
// With parameters {0.1, 0.2} and the points {{}, {{1, 0.5}}}, replay executes the
// circuit with {0.1, 0.2} and with {0.1, 0.7}.
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

// An amount that is added to a parameter.
struct Shift {
  std::int32_t number;  // index of a static-count or dynamic-count parameter
  double amount;

  auto operator<=>(const Shift&) const = default;
};

// Points in the space of parameters at which a circuit is executed.
struct Points {
  std::vector<std::vector<Shift>> shifts;  // for each point
  // If not empty, f64[rows, params]: a shift with static-count index n is along row n,
  // instead of along parameter n.
  std::span<const double> basis = {};
  std::size_t steps = 0;  // the number of the circuit's steps to execute
};

// These functions distribute the executions over threads. Results do not depend on the
// number of threads. They throw the CircuitError of the first execution that fails.

// Executes and measures each row of a batch. Writes Jacobians too, unless null.
void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers);

// Executes the steps that `recorded` has stored, once for each point, and measures each
// execution. For a batch, executes each row at each point.
void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Points& points, const Measuring& measuring, const Helpers& helpers);

// Like replay, but writes the adjoint derivatives of the expectation values instead of
// the values, so that `measuring` has no outputs.
void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Points& points, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers);

}  // namespace bellhop
