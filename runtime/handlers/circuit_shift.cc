// handlers/circuit_shift.cc: bellhop_circuit_shift.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bellhop/circuit_ffi.h"
#include "bellhop/circuit_handlers.h"
#include "bellhop/profile.h"
#include "bellhop/uncounted_shifts.h"

namespace bellhop {
namespace {

// The parsed measurements of a compiled call. Shared by all executions, never changed.
struct ShiftState {
  static constexpr const char* kTypeName = "bellhop_circuit_shift_state";
  static ffi::TypeId id;
  MeasurementList list;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> squares;
};
ffi::TypeId ShiftState::id = {};

using Integers = ffi::Span<const std::int64_t>;

ffi::ErrorOr<std::unique_ptr<ShiftState>> prepare_shift(Integers code, Integers sizes,
                                                        Integers squares) {
  return instantiate<ShiftState>([&] {
    auto state = std::make_unique<ShiftState>(
        ShiftState{MeasurementList(std::span(code.begin(), code.size())),
                   {sizes.begin(), sizes.end()},
                   {squares.begin(), squares.end()}});
    const auto count = static_cast<std::int64_t>(state->list.size());
    bool is_right =
        sizes.size() == state->list.size() && squares.size() == sizes.size();
    for (std::size_t i = 0; is_right && i < sizes.size(); ++i) {
      is_right =
          sizes[i] >= 0 && squares[i] < count &&
          (squares[i] < 0 || sizes[static_cast<std::size_t>(squares[i])] == sizes[i]);
    }
    if (!is_right) {
      throw CircuitError("The derivative of " + std::to_string(count) +
                         " measurements is asked for with wrong sizes or squares.");
    }
    return state;
  });
}

using Numbers = ffi::BufferR1<ffi::F64>;

template <typename Buffer>
auto span_of(const Buffer& buffer) {
  return std::span<const double>(buffer.typed_data(), buffer.element_count());
}

// Threads: any, several at once; operations on one session wait for each other, and
// the runs are shared with XLA's threads.
// The session is borrowed, and ends here if a run fails.
ffi::Error shift(ShiftState* state, ffi::RunId run, ffi::ThreadPool pool,
                 HandleBuffer handle, Numbers data, Numbers params,
                 Numbers coefficients, Numbers amounts, HandleResult result,
                 ffi::ResultBufferR0<ffi::S32> derivative) {
  return guarded(run, [&] {
    const Handle name = read_handle(handle);
    Lease lease = open_session(name);
    require_one_circuit(lease.session);
    if (coefficients.element_count() != amounts.element_count()) {
      throw CircuitError(
          "A shift rule has " + std::to_string(coefficients.element_count()) +
          " coefficients and " + std::to_string(amounts.element_count()) + " amounts.");
    }
    *derivative->typed_data() = shift_uncounted(
        lease.session, {span_of(params)},
        {span_of(coefficients), span_of(amounts), state->sizes, state->squares},
        state->list, {span_of(data)}, helpers_of(pool));
    write_handle(result, name);
  });
}

XLA_FFI_DEFINE_HANDLER(kPrepareShift, prepare_shift,
                       ffi::Ffi::BindInstantiate()
                           .Attr<Integers>("code")
                           .Attr<Integers>("sizes")
                           .Attr<Integers>("squares"));

XLA_FFI_DEFINE_HANDLER(kShift, shift,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<ShiftState>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<HandleBuffer>()
                           .Arg<Numbers>()
                           .Arg<Numbers>()
                           .Arg<Numbers>()
                           .Arg<Numbers>()
                           .Ret<ffi::BufferR1<ffi::U32>>()
                           .Ret<ffi::BufferR0<ffi::S32>>());

}  // namespace

Target circuit_shift_target() {
  return {"bellhop_circuit_shift", with_state_type<ShiftState, kPrepareShift>,
          profiled<kShift>};
}

}  // namespace bellhop
