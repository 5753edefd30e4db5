// handlers/circuit_mid_measure.cc: bellhop_circuit_mid_measure.
#include <string_view>

#include "gates/gate_table.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_handlers.h"
#include "measurements/mid_measurement.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: the session is borrowed, and ends here if the measurement fails.
ffi::Error mid_measure(Integer<"postselect"> postselect, Integer<"reset"> reset,
                       Text<"site"> site, ffi::RunId run, HandleBuffer handle,
                       ffi::BufferR0<ffi::S32> wire, HandleResult result,
                       ffi::ResultBufferR0<ffi::PRED> outcome) {
  return with_one_circuit({run, handle, &result}, [&](Lease& lease) {
    apply_waiting(lease.session);
    const MidMeasurement measurement{postselect, reset != 0, std::string(site)};
    *outcome->typed_data() =
        measure_wire(lease.session, measurement, *wire.typed_data());
  });
}

}  // namespace

Target circuit_mid_measure_target() {
  return {"bellhop_circuit_mid_measure", nullptr, profiled<handler<mid_measure>>};
}

}  // namespace bellhop
