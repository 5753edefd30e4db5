// engine/single.h: a circuit that is no batch, under way in the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "circuit/session.h"
#include "engine/walk.h"
#include "measurements/measuring.h"
#include "measurements/mid_measurement.h"
#include "states/values.h"

namespace bellhop::engine {

// What a session keeps of it: the state after the first `done` of its steps.
struct Single {
  explicit Single(const Session& session);

  // Drawn after so many steps, where there is one shot.
  struct Sample {
    std::size_t steps;
    std::uint32_t index;
  };

  Walk walk;
  std::size_t done = 0;
  std::vector<Sample> samples;
};

// The circuit of a session that waits, after all of its steps.
Single& at_end(Session& session);

// Measures what waits in a session, with derivatives if they are asked for, if the
// engine `runs` it (choice.h).
void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians);

// Measures a wire in the middle of a session that waits, and returns the outcome.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

// The parameters of a step, which are only read until the next step's are asked for.
using ParametersOf = std::function<std::span<const double>(const Step&)>;

// Goes through some steps again with other parameters, as run `number`, and measures or
// differentiates.
void run_again(std::span<const Step> steps, const ParametersOf& parameters_of,
               const Measuring& measuring, const Jacobians* jacobians,
               std::size_t number, const Sampling& sampling, Walk& walk);

}  // namespace bellhop::engine
