// handlers/circuit_measure.cc: bellhop_circuit_measure.
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_ops.h"
#include "measurements/measurement_list.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The state of a compiled bellhop_circuit_measure: its parsed measurements. Shared by
// all executions, never changed.
struct MeasureState {
  static inline ffi::TypeId id = {};
  MeasurementList list;
  Derivative derivative;
};

// Creates the state of a compiled bellhop_circuit_measure from its attributes.
ffi::ErrorOr<std::unique_ptr<MeasureState>> prepare_measure(
    List<"code", std::int64_t> code, Integer<"jacobian"> jacobian) {
  return instantiate<MeasureState>([&] {
    return std::make_unique<MeasureState>(
        MeasureState{MeasurementList(code), parse_derivative(jacobian)});
  });
}

// The handler of bellhop_circuit_measure.
// Threading: any XLA thread; operations on one session wait for each other; distributes
// the rows of a batch over XLA's threads.
// Ownership: borrows the session; closes it if a measurement fails.
ffi::Error measure_handler(MeasureState* state, ffi::RunId run, ffi::ThreadPool pool,
                           HandleBuffer handle, ffi::Buffer<ffi::F64> data,
                           Vector vector, HandleResult result,
                           ffi::RemainingRets values) {
  return with_session({run, handle, &result, state}, [&](Lease& lease) {
    take_measurements(lease.session, read_handle(handle).place, state->list,
                      read_per_row(data, lease->rows), vector, values,
                      state->derivative, make_helpers(pool));
  });
}

const Target kCircuitMeasure("bellhop_circuit_measure",
                             profile_handler<handler<measure_handler>>,
                             register_and_instantiate<prepare_measure>);

}  // namespace
}  // namespace bellhop
