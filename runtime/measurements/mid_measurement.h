// measurements/mid_measurement.h: mid-circuit measurements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "circuit/session.h"

namespace bellhop {

// The static attributes of a mid-circuit measurement.
struct MidMeasurement {
  static constexpr std::int64_t kNoPostselection = -1;

  std::int64_t postselect = kNoPostselection;  // or 0, 1
  bool reset = false;  // whether to bring the wire to zero afterwards
  std::string site;    // the line of the user's program
};

// Chooses the next outcome of a session, by enumeration or at random, given the squared
// norms of the state's parts with each outcome.
bool next_outcome(Session& session, const MidMeasurement& measurement,
                  const std::array<double, 2>& both);

// Returns the projection for an outcome that was drawn. `both` are the probabilities of
// both outcomes, by which the projection keeps the state normalized.
Projection drawn(std::int32_t wire, bool outcome, const MidMeasurement& measurement,
                 const std::array<double, 2>& both);

// Runs a mid-circuit measurement as Session::attempt does.
template <typename Measure>
bool attempt_mid_measurement(Session& session, const MidMeasurement& measurement,
                             std::int32_t wire, Measure&& measure) {
  const auto describe = [&] {
    std::string text = "The mid-circuit measurement of wire " + std::to_string(wire);
    if (!measurement.site.empty()) text += " (" + measurement.site + ")";
    return text;
  };
  return session.attempt(describe, std::forward<Measure>(measure));
}

// Projects the state of a plugin's device on an outcome, and multiplies it by the
// projection's scale.
void project(Session& session, const Projection& projection);

// Projects the state, and records the projection as a step of the circuit.
void project_and_keep(Session& session, const Projection& projection);

// Measures a wire of a plugin's device, and returns the outcome. If outcomes are
// enumerated, the state is projected and not normalized, so that its squared norm is
// the probability of the outcomes so far.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

}  // namespace bellhop
