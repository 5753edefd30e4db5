// measurements/mid_measurement.h: measurements in the middle of a circuit.
#pragma once

#include <cstdint>
#include <string>

#include "circuit/session.h"

namespace bellhop {

// What of a mid-circuit measurement is known when it is compiled.
struct MidMeasurement {
  static constexpr std::int64_t kNoPostselection = -1;

  std::int64_t postselect = kNoPostselection;  // or 0, 1
  bool reset = false;                          // bring the wire to zero afterwards
  std::string site;                            // the line of the user's program
};

// Projects the state on an outcome, without normalizing it.
void project(Session& session, const Projection& projection);

// Measures a wire, collapses the state, and returns the outcome. In a tree the state
// is projected, so that its squared norm is the probability of the outcomes so far.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

}  // namespace bellhop
