// handlers/circuit_shift.cc: bellhop_circuit_shift and
// bellhop_circuit_directional_derivative.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "derivatives/directional_derivative.h"
#include "derivatives/dynamic_count_shifts.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The parsed measurements of a compiled call. Shared by all executions, never changed.
struct ShiftState {
  static constexpr const char* kTypeName = "bellhop_circuit_shift_state";
  static inline ffi::TypeId id = {};
  MeasurementList list;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> squares;
};

// The same of a derivative in directions.
struct DerivativeState {
  static constexpr const char* kTypeName =
      "bellhop_circuit_directional_derivative_state";
  static inline ffi::TypeId id = {};
  ShiftState shift;
  bool adjoint;
  bool kept;
};

using Integers = std::span<const std::int64_t>;

ShiftState read_measurements(Integers code, Integers sizes, Integers squares) {
  ShiftState state{MeasurementList(code),
                   {sizes.begin(), sizes.end()},
                   {squares.begin(), squares.end()}};
  const auto count = static_cast<std::int64_t>(state.list.size());
  bool is_right = sizes.size() == state.list.size() && squares.size() == sizes.size();
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
}

ffi::ErrorOr<std::unique_ptr<ShiftState>> prepare_shift(
    List<"code", std::int64_t> code, List<"sizes", std::int64_t> sizes,
    List<"squares", std::int64_t> squares) {
  return instantiate<ShiftState>([&] {
    return std::make_unique<ShiftState>(read_measurements(code, sizes, squares));
  });
}

ffi::ErrorOr<std::unique_ptr<DerivativeState>> prepare_derivative(
    List<"code", std::int64_t> code, List<"sizes", std::int64_t> sizes,
    List<"squares", std::int64_t> squares, Integer<"adjoint"> adjoint,
    Integer<"kept"> kept) {
  return instantiate<DerivativeState>([&] {
    return std::make_unique<DerivativeState>(DerivativeState{
        read_measurements(code, sizes, squares), adjoint != 0, kept != 0});
  });
}

using Numbers = ffi::BufferR1<ffi::F64>;

DynamicCountShifts read_rule(const ShiftState& state, const Numbers& coefficients,
                             const Numbers& amounts) {
  if (coefficients.element_count() != amounts.element_count()) {
    throw CircuitError(
        "A shift rule has " + std::to_string(coefficients.element_count()) +
        " coefficients and " + std::to_string(amounts.element_count()) + " amounts.");
  }
  return {span_of(coefficients), span_of(amounts), state.sizes, state.squares};
}

// Threading: any XLA thread; operations on one session wait for each other, and the
// runs are shared with XLA's threads.
// Ownership: the session is borrowed, and ends here if a run fails.
ffi::Error shift(ShiftState* state, ffi::RunId run, ffi::ThreadPool pool,
                 HandleBuffer handle, Numbers data, Numbers params,
                 Numbers coefficients, Numbers amounts, HandleResult result,
                 ffi::ResultBufferR0<ffi::S32> derivative) {
  return with_one_circuit({run, handle, &result, state}, [&](Lease& lease) {
    *derivative->typed_data() = shift_dynamic_count(
        lease.session, {span_of(params)}, read_rule(*state, coefficients, amounts),
        state->list, {span_of(data)}, helpers_of(pool));
  });
}

using Matrix = ffi::BufferR2<ffi::F64>;

// Threading: any XLA thread; operations on one session wait for each other, and the
// runs are shared with XLA's threads.
// Ownership: the session is borrowed, and ends here if a run fails.
ffi::Error differentiate(DerivativeState* state, ffi::RunId run, ffi::ThreadPool pool,
                         HandleBuffer handle, Numbers data, Numbers params,
                         Numbers coefficients, Numbers amounts,
                         ffi::BufferR0<ffi::S32> derivative,
                         ffi::BufferR0<ffi::S32> steps, ffi::BufferR2<ffi::S32> index,
                         Matrix amount, Matrix directions,
                         ffi::ResultBufferR3<ffi::F64> result) {
  return with_one_circuit({run, handle, nullptr, state}, [&](Lease& lease) {
    const auto shape = directions.dimensions();
    const DirectionRows rows{span_of(directions), static_cast<std::size_t>(shape[0]),
                             static_cast<std::size_t>(shape[1])};
    if (state->kept) {
      return kept_derivative(lease.session, *derivative.typed_data(), rows,
                             span_of(*result));
    }
    const std::int64_t steps_kept = static_cast<std::int64_t>(lease->steps.size());
    if (index.element_count() != amount.element_count() || *steps.typed_data() < 0 ||
        *steps.typed_data() > steps_kept) {
      throw CircuitError(
          "A derivative is asked for after step " +
          std::to_string(*steps.typed_data()) + " of " + std::to_string(steps_kept) +
          ", with " + std::to_string(index.element_count()) + " indices and " +
          std::to_string(amount.element_count()) + " amounts of shifts.");
    }
    const Shifts points{span_of(index), span_of(amount),
                        static_cast<std::size_t>(index.dimensions()[0]),
                        static_cast<std::size_t>(index.dimensions()[1]),
                        static_cast<std::size_t>(*steps.typed_data())};
    directional_derivative(lease.session, {span_of(params)},
                           read_rule(state->shift, coefficients, amounts),
                           state->shift.list, {span_of(data)}, points, rows,
                           state->adjoint, span_of(*result), helpers_of(pool));
  });
}

const Target kCircuitDirectionalDerivative("bellhop_circuit_directional_derivative",
                                           profiled<handler<differentiate>>,
                                           preparing<prepare_derivative>);
const Target kCircuitShift("bellhop_circuit_shift", profiled<handler<shift>>,
                           preparing<prepare_shift>);

}  // namespace
}  // namespace bellhop
