// measurements/mid_measurement.h: measurements in the middle of a circuit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "circuit/session.h"

namespace bellhop {

// What of a mid-circuit measurement is known when it is compiled.
struct MidMeasurement {
  static constexpr std::int64_t kNoPostselection = -1;

  std::int64_t postselect = kNoPostselection;  // or 0, 1
  bool reset = false;                          // bring the wire to zero afterwards
  std::string site;                            // the line of the user's program
};

// The next outcome of a session, of a tree or drawn, given the squared norms of the
// state's parts with each.
bool next_outcome(Session& session, const MidMeasurement& measurement,
                  const std::array<double, 2>& both);

// What an outcome that was drawn does to a normalized state, which stays so.
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

// Projects the state on an outcome, and multiplies it as the projection says.
void project(Session& session, const Projection& projection);

// The same as a step of the circuit.
void project_and_keep(Session& session, const Projection& projection);

// Measures a wire, collapses the state, and returns the outcome. In a tree the state
// is projected, so that its squared norm is the probability of the outcomes so far.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

}  // namespace bellhop
