// handlers/circuit_mid_measure.cc: bellhop_circuit_mid_measure.
#include <string_view>

#include "handlers/circuit_ffi.h"
#include "handlers/circuit_handlers.h"
#include "measurements/mid_measurement.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Threads: any, several at once; operations on one session wait for each other.
// The session is borrowed, and ends here if the measurement fails.
ffi::Error mid_measure(std::int64_t postselect, std::int64_t reset,
                       std::string_view site, ffi::RunId run, HandleBuffer handle,
                       ffi::BufferR0<ffi::S32> wire, HandleResult result,
                       ffi::ResultBufferR0<ffi::PRED> outcome) {
  return guarded(run, handle, [&] {
    const Handle name = read_handle(handle);
    Lease lease = open_session(name);
    require_one_circuit(lease.session);
    const MidMeasurement measurement{postselect, reset != 0, std::string(site)};
    *outcome->typed_data() =
        measure_wire(lease.session, measurement, *wire.typed_data());
    write_handle(result, name);
  });
}

XLA_FFI_DEFINE_HANDLER(kMidMeasure, mid_measure,
                       ffi::Ffi::Bind()
                           .Attr<std::int64_t>("postselect")
                           .Attr<std::int64_t>("reset")
                           .Attr<std::string_view>("site")
                           .Ctx<ffi::RunId>()
                           .Arg<HandleBuffer>()
                           .Arg<ffi::BufferR0<ffi::S32>>()
                           .Ret<ffi::BufferR1<ffi::U32>>()
                           .Ret<ffi::BufferR0<ffi::PRED>>());

}  // namespace

Target circuit_mid_measure_target() {
  return {"bellhop_circuit_mid_measure", nullptr, profiled<kMidMeasure>};
}

}  // namespace bellhop
