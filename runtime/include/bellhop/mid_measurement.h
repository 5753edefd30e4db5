// bellhop/mid_measurement.h: measurements in the middle of a circuit.
#pragma once

#include <cstdint>
#include <string>

#include "bellhop/session.h"

namespace bellhop {

// What of a mid-circuit measurement is known when it is compiled.
struct MidMeasurement {
  static constexpr std::int64_t kNoPostselection = -1;

  std::int64_t postselect = kNoPostselection;  // or 0, 1
  bool reset = false;                          // bring the wire to zero afterwards
  std::string site;                            // the line of the user's program
};

// Measures a wire, collapses the state, and returns the outcome.
bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire);

}  // namespace bellhop
