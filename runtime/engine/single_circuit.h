// engine/single_circuit.h: a circuit that is no batch, under way in the engine.
//
// After three steps and a measurement of a wire in the middle, a session keeps a Single
// with done = 4 (the projection is a step too). Its gates after that wait, until the
// next measurement goes on from there.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "circuit/session.h"
#include "engine/state_evolution.h"
#include "measurements/measurement_request.h"
#include "measurements/mid_measurement.h"
#include "states/measure_state.h"
#include "threads/thread_team.h"

namespace bellhop::engine {

// What a session keeps of its circuit: the state after the first `done` steps.
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

// The circuit of a session that waits, after all of its steps. Where it begins here, it
// does along a direction.
Single& at_end(Session& session, const Direction& direction = {});

// Runs the gates that wait in a session and measures, with derivatives unless
// `jacobians` is null. The engine must be able to (`runs` in engine_dispatch.h).
void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians, const Helpers& helpers);

// Runs the gates that wait in a session, measures a wire and returns the outcome.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

// Returns the parameters of a step; they are valid until the next call.
using ParametersOf = std::function<std::span<const double>(const Step&)>;

// Runs steps of a row with other parameters, measures, and writes derivatives unless
// `jacobians` is null. `number` is that of the run: where it writes and which seed it
// has.
void run_again(std::span<const Step> steps, std::size_t row,
               const ParametersOf& parameters_of, const Measuring& measuring,
               const Jacobians* jacobians, std::size_t number, const Sampling& sampling,
               Walk& walk);

}  // namespace bellhop::engine
