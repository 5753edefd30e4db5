// derivatives/dynamic_count_shifts.h: derivatives by parameters whose number only the
// run knows, from values at shifted ones.
#pragma once

#include <cstdint>
#include <span>

#include "circuit/per_row.h"
#include "circuit/session.h"
#include "derivatives/replay.h"
#include "measurements/measurement_list.h"
#include "threads/row_team.h"

namespace bellhop {

// A rule that holds for each of the parameters: the derivative is the sum of values at
// so shifted parameters, each times its coefficient.
struct DynamicCountShifts {
  std::span<const double> coefficients;
  std::span<const double> amounts;
  std::span<const std::int64_t> sizes;    // how many numbers each measurement gives
  std::span<const std::int64_t> squares;  // for each, whose square is added, or below 0
};

// Keeps the derivative of all numbers that are measured, in order, with the session,
// and returns its number there. Runs are shared among threads. Throws CircuitError.
std::int32_t shift_dynamic_count(Session& session,
                                 const PerRow<std::span<const double>>& params,
                                 const DynamicCountShifts& shifts,
                                 const MeasurementList& measurements,
                                 const PerRow<std::span<const double>>& data,
                                 const Helpers& helpers);

}  // namespace bellhop
