// handlers/circuit_measure.cc: bellhop_circuit_measure.
#include <span>
#include <vector>

#include "bellhop/circuit_ffi.h"
#include "bellhop/circuit_handlers.h"
#include "bellhop/measurement_list.h"
#include "bellhop/profile.h"

namespace bellhop {
namespace {

// The parsed code of a compiled measurement. Shared by all executions, never
// changed.
struct MeasureState {
  static constexpr const char* kTypeName = "bellhop_circuit_measure_state";
  static ffi::TypeId id;
  MeasurementList list;
};
ffi::TypeId MeasureState::id = {};

ffi::ErrorOr<std::unique_ptr<MeasureState>> prepare_measure(
    ffi::Span<const std::int64_t> code) {
  return instantiate<MeasureState>([&] {
    return std::make_unique<MeasureState>(
        MeasureState{MeasurementList(std::span(code.begin(), code.size()))});
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

// Threads: any, several at once; operations on one session wait for each other.
// The session is borrowed, and ends here if a measurement fails.
ffi::Error measure(MeasureState* state, ffi::RunId run, HandleBuffer handle,
                   ffi::BufferR1<ffi::F64> data, HandleResult result,
                   ffi::RemainingRets values) {
  return guarded(run, [&] {
    const Handle name = read_handle(handle);
    Lease lease = open_session(name);
    std::vector<Output> outputs;
    outputs.reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      outputs.push_back(output_of(values, i));
    }
    state->list.measure(lease.session,
                        std::span(data.typed_data(), data.element_count()), outputs);
    write_handle(result, name);
  });
}

XLA_FFI_DEFINE_HANDLER(
    kPrepareMeasure, prepare_measure,
    ffi::Ffi::BindInstantiate().Attr<ffi::Span<const std::int64_t>>("code"));

XLA_FFI_DEFINE_HANDLER(kMeasure, measure,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<MeasureState>>()
                           .Ctx<ffi::RunId>()
                           .Arg<HandleBuffer>()
                           .Arg<ffi::BufferR1<ffi::F64>>()
                           .Ret<ffi::BufferR1<ffi::U32>>()
                           .RemainingRets());

}  // namespace

Target circuit_measure_target() {
  return {"bellhop_circuit_measure", with_state_type<MeasureState, kPrepareMeasure>,
          profiled<kMeasure>};
}

}  // namespace bellhop
