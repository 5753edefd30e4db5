// engine/single.h: a circuit that is no batch, under way in the engine.
#pragma once

#include <cstdint>
#include <span>

#include "circuit/session.h"
#include "engine/walk.h"
#include "measurements/measuring.h"
#include "measurements/mid_measurement.h"

namespace bellhop::engine {

// What a session keeps of it: the state after the first `done` of its steps.
struct Single {
  explicit Single(const Session& session);

  Walk walk;
  std::size_t done = 0;
};

// Measures what waits in a session, with derivatives if they are asked for, if the
// engine `runs` it (choice.h).
void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians);

// Measures a wire in the middle of a session that waits, and returns the outcome.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

// Writes the derivatives of the expectation values of a session that waits, at other
// parameters, with a walk of its own.
void differentiate_at(const Session& session, std::span<const double> params,
                      const Measuring& measuring, std::span<double> jacobian,
                      std::size_t columns, Walk& walk);

}  // namespace bellhop::engine
