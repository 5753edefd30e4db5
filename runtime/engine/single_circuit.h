// engine/single_circuit.h: execute a single circuit in the engine.
//
// After three steps and a mid-circuit measurement, a session has a Single with done = 4
// (the projection is a step too). Later gates are stored, until the next measurement
// continues from there.
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

// The engine's state of a session's circuit after the first `done` steps.
struct Single {
  explicit Single(const Session& session);

  // A sample that was drawn after some steps of a circuit with one shot.
  struct Sample {
    std::size_t steps;
    std::uint32_t index;
  };

  // Starts again with the zero state.
  void restart() {
    done = 0;
    begun = false;
  }

  Walk walk;
  std::size_t done = 0;
  bool begun = false;
  std::vector<Sample> samples;
};

// Applies all remaining steps of a session whose gates are stored, and returns its
// Single. If the circuit begins here, it has a tangent along the direction.
Single& apply_remaining_steps(Session& session, const Direction& direction = {});

// Applies the stored gates of a session and removes them from it, unless its
// derivatives need them. Afterwards the plugin cannot take the circuit over.
void apply_and_forget(Session& session);

// Applies the stored gates of a session and measures, with derivatives unless
// `jacobians` is null. The engine must support the circuit (`runs` in
// engine_dispatch.h).
void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians, const Helpers& helpers);

// Applies the stored gates of a session, measures a wire and returns the outcome.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

// A function that returns the parameters of a step, valid until the next call.
using ParametersOf = std::function<std::span<const double>(const Step&)>;

// Executes steps of a row with other parameters, measures, and writes derivatives
// unless `jacobians` is null. `number` is the index of the execution, which selects its
// outputs and its seed.
void run_again(std::span<const Step> steps, std::size_t row,
               const ParametersOf& parameters_of, const Measuring& measuring,
               const Jacobians* jacobians, std::size_t number, const Sampling& sampling,
               Walk& walk);

}  // namespace bellhop::engine
