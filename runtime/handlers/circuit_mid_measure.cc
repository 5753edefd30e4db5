// handlers/circuit_mid_measure.cc: bellhop_circuit_mid_measure.
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/batch_execution.h"
#include "engine/engine_dispatch.h"
#include "engine/single_circuit.h"
#include "handlers/circuit_ffi.h"
#include "measurements/flush_gates.h"
#include "measurements/mid_measurement.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The handler of bellhop_circuit_mid_measure.
// Threading: any XLA thread; operations on one session wait for each other; distributes
// the rows of a batch over XLA's threads.
// Ownership: borrows the session; closes it if the measurement fails.
ffi::Error mid_measure_handler(Integer<"postselect"> postselect, Integer<"reset"> reset,
                               Text<"site"> site, ffi::RunId run, ffi::ThreadPool pool,
                               HandleBuffer handle, ffi::BufferR0<ffi::S32> wire,
                               HandleResult result,
                               ffi::ResultBufferR0<ffi::PRED> outcome) {
  return with_session({run, handle, &result}, [&](Lease& lease) {
    Session& session = lease.session;
    const MidMeasurement measurement{postselect, reset != 0, std::string(site)};
    const std::int32_t measured = *wire.typed_data();
    if (session.rows > 0) {
      *outcome->typed_data() = engine::measure_wire_of_rows(
          session, measurement, measured, make_helpers(pool));
      return;
    }
    const bool in_engine = engine::may_measure(session, measured);
    if (!in_engine) apply_waiting(session);
    *outcome->typed_data() = in_engine
                                 ? engine::measure_wire(session, measurement, measured)
                                 : measure_wire(session, measurement, measured);
  });
}

const Target kCircuitMidMeasure("bellhop_circuit_mid_measure",
                                profile_handler<handler<mid_measure_handler>>);

}  // namespace
}  // namespace bellhop
