// handlers/circuit_measure.cc: bellhop_circuit_measure.
#include <optional>
#include <span>
#include <vector>

#include "derivatives/jacobian.h"
#include "derivatives/replay.h"
#include "engine/choice.h"
#include "engine/rows.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_handlers.h"
#include "measurements/measurement_list.h"
#include "measurements/waiting.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The parsed code of a compiled measurement. Shared by all executions, never
// changed.
struct MeasureState {
  static constexpr const char* kTypeName = "bellhop_circuit_measure_state";
  static inline ffi::TypeId id = {};
  MeasurementList list;
  bool jacobian;  // the last result
};

ffi::ErrorOr<std::unique_ptr<MeasureState>> prepare_measure(
    List<"code", std::int64_t> code, Integer<"jacobian"> jacobian) {
  return instantiate<MeasureState>([&] {
    return std::make_unique<MeasureState>(
        MeasureState{MeasurementList(code), jacobian != 0});
  });
}

Output output_of(const ffi::RemainingRets& values, std::size_t i) {
  const ffi::AnyBuffer value = **values.get<ffi::AnyBuffer>(i);
  const ffi::DataType type = value.element_type();
  if (type != ffi::F64 && type != ffi::C128 && type != ffi::U8) {
    throw CircuitError(
        "Result " + std::to_string(i) +
        " of a measurement: expected type f64, c128 or u8, got another.");
  }
  return {value.untyped_data(), value.element_count(),
          type == ffi::F64    ? Output::Type::kReal
          : type == ffi::C128 ? Output::Type::kComplex
                              : Output::Type::kBit};
}

Jacobians jacobians_of(const ffi::RemainingRets& values) {
  const std::size_t last = values.size() - 1;
  const Output output = output_of(values, last);
  const auto shape = (**values.get<ffi::AnyBuffer>(last)).dimensions();
  if (output.type != Output::Type::kReal || shape.size() < 2) {
    throw CircuitError("A Jacobian of measured values has two dimensions of type f64.");
  }
  const auto size = [&](std::size_t behind) {
    return static_cast<std::size_t>(shape[shape.size() - behind]);
  };
  return {std::span(static_cast<double*>(output.data), output.size), size(2), size(1)};
}

// Threading: any XLA thread; operations on one session wait for each other, and the
// rows of a batch are shared with XLA's threads.
// Ownership: the session is borrowed, and ends here if a measurement fails.
ffi::Error measure(MeasureState* state, ffi::RunId run, ffi::ThreadPool pool,
                   HandleBuffer handle, ffi::Buffer<ffi::F64> data, HandleResult result,
                   ffi::RemainingRets values) {
  return guarded(state, run, handle, [&] {
    const Handle name = read_handle(handle);
    Lease lease = open_session(name);
    const std::size_t rows = lease->rows;
    std::optional<Jacobians> jacobians;
    if (state->jacobian) jacobians = jacobians_of(values);
    std::vector<Output> outputs;
    outputs.reserve(values.size());
    for (std::size_t i = 0; i < values.size() - (state->jacobian ? 1 : 0); ++i) {
      Output output = output_of(values, i);
      if (rows > 0) output.size /= rows;
      outputs.push_back(output);
    }
    const Measuring measuring{state->list, read_per_row(data, rows), outputs};
    const Jacobians* const asked = jacobians ? &*jacobians : nullptr;
    if (engine::runs(lease.session, measuring, asked)) {
      engine::run(lease.session, measuring, asked, helpers_of(pool));
      profile_engine(name.place);
    } else if (rows > 0) {
      run_batch(lease.session, measuring, asked, helpers_of(pool));
    } else {
      apply_waiting(lease.session);
      state->list.measure(lease.session, measuring.data.values, outputs);
      if (jacobians) {
        adjoint_jacobian(lease.session, jacobians->values, jacobians->expvals,
                         jacobians->columns);
      }
    }
    write_handle(result, name);
  });
}

}  // namespace

Target circuit_measure_target() {
  return {"bellhop_circuit_measure", preparing<prepare_measure>,
          profiled<handler<measure>>};
}

}  // namespace bellhop
