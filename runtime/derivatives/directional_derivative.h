// derivatives/directional_derivative.h: derivatives of any order by parameters whose
// number only the run knows, in given directions.
#pragma once

#include <cstddef>
#include <span>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "derivatives/dynamic_count_shifts.h"
#include "derivatives/replay.h"
#include "measurements/measurement_list.h"
#include "threads/row_team.h"

namespace bellhop {

// Rows of directions, as proxies of the session; a derivative of order `order` is taken
// in those of a row.
struct DirectionRows {
  std::span<const double> proxies;  // [rows, order]
  std::size_t rows = 0;
  std::size_t order = 0;
};

// The derivative that the session keeps under a number, of order one, in each
// direction: f64[rows, values]. Throws CircuitError.
void kept_derivative(const Session& session, std::int32_t derivative,
                     const DirectionRows& directions, std::span<double> result);

// The same of any order, from runs at shifted parameters: f64[rows, points, values].
// The static-count parameters are shifted to each of the points first. Each order takes
// a rule of `shifts`; with `adjoint` the last one is the plugin's own derivative
// instead, and all measurements are expectation values. Runs are shared among threads,
// and how the samples of a circuit with shots fall does not depend on what else is
// differentiated. Throws CircuitError.
void directional_derivative(Session& session,
                            const PerRow<std::span<const double>>& params,
                            const DynamicCountShifts& shifts,
                            const MeasurementList& measurements,
                            const PerRow<std::span<const double>>& data,
                            const Shifts& points, const DirectionRows& directions,
                            bool adjoint, std::span<double> result,
                            const Helpers& helpers);

}  // namespace bellhop
