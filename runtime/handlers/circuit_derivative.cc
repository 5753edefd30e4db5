// handlers/circuit_derivative.cc: bellhop_circuit_derivative.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "derivatives/derivative.h"
#include "devices/checked_size.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The state of a compiled bellhop_circuit_derivative. Shared by all executions, never
// changed.
struct DerivativeState {
  static inline ffi::TypeId id = {};
  MeasurementList list;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> squares;
  std::vector<std::int64_t> ends;
  std::vector<double> coefficients;
  std::vector<double> amounts;
  std::size_t order;
  bool adjoint;
  bool keep;
};

// More than any program needs, and small enough for loops over orders.
constexpr std::size_t kMostOrder = 32;

template <typename T>
std::vector<T> copy_to_vector(std::span<const T> numbers) {
  return {numbers.begin(), numbers.end()};
}

// Throws CircuitError if the attributes are inconsistent.
void check(const DerivativeState& state) {
  const auto count = static_cast<std::int64_t>(state.list.size());
  const auto& [list, sizes, squares, ends, coefficients, amounts, order, adjoint,
               keep] = state;
  bool is_right = sizes.size() == list.size() && squares.size() == sizes.size();
  for (std::size_t i = 0; is_right && i < sizes.size(); ++i) {
    is_right = sizes[i] >= 0 && squares[i] < count &&
               (squares[i] < 0 ||
                (!adjoint && sizes[static_cast<std::size_t>(squares[i])] == sizes[i]));
  }
  if (!is_right) {
    throw CircuitError(
        "internal error: the attributes sizes and squares do not match the " +
        std::to_string(count) +
        " measurements of a derivative. Please report this as a bug in Bellhop.");
  }
  std::int64_t last = 0;
  for (const std::int64_t end : ends) {
    is_right = is_right && end >= last;
    last = end;
  }
  if (!is_right || ends.empty() || coefficients.size() != amounts.size() ||
      static_cast<std::size_t>(last) != amounts.size()) {
    throw CircuitError(
        "attribute ends of the shift rules: expected ascending values, the last of "
        "them the number of coefficients and of amounts, got a last value of " +
        std::to_string(last) + ", " + std::to_string(coefficients.size()) +
        " coefficients and " + std::to_string(amounts.size()) + " amounts." + kDamaged);
  }
}

// Creates the state of a compiled bellhop_circuit_derivative from its attributes.
ffi::ErrorOr<std::unique_ptr<DerivativeState>> prepare_derivative(
    List<"code", std::int64_t> code, List<"sizes", std::int64_t> sizes,
    List<"squares", std::int64_t> squares, List<"ends", std::int64_t> ends,
    List<"coefficients", double> coefficients, List<"amounts", double> amounts,
    Integer<"order"> order, Integer<"adjoint"> adjoint, Integer<"keep"> keep) {
  return instantiate<DerivativeState>([&] {
    auto state = std::make_unique<DerivativeState>(DerivativeState{
        MeasurementList(*code), copy_to_vector(*sizes), copy_to_vector(*squares),
        copy_to_vector(*ends), copy_to_vector(*coefficients), copy_to_vector(*amounts),
        checked_size(order, kMostOrder, "order of a derivative"), adjoint != 0,
        keep != 0});
    check(*state);
    return state;
  });
}

using Numbers = ffi::Buffer<ffi::F64>;  // shape [n], or [rows, n] in a batch

// Combines attributes and operands into a Differentiation; throws CircuitError if they
// are inconsistent.
Differentiation read_differentiation(const DerivativeState& state,
                                     const Session& session, std::size_t params,
                                     const ffi::BufferR1<ffi::S32>& rules,
                                     const ffi::BufferR2<ffi::F64>& basis,
                                     std::int32_t steps,
                                     const ffi::BufferR2<ffi::F64>& directions) {
  const auto known = static_cast<std::int32_t>(session.steps.size());
  if (steps > known) {
    throw CircuitError("derivative: expected at most the " + std::to_string(known) +
                       " recorded steps, got " + std::to_string(steps) + "." +
                       kDamaged);
  }
  const std::span<const std::int32_t> of_parameters = span_of(rules);
  for (const std::int32_t rule : of_parameters) {
    if (rule >= 0 && static_cast<std::size_t>(rule) < state.ends.size()) continue;
    throw CircuitError(
        "shift rules of parameters: expected indices 0 to " +
        std::to_string(static_cast<std::int64_t>(state.ends.size()) - 1) + ", got " +
        std::to_string(rule) + "." + kDamaged);
  }
  const auto rows = static_cast<std::size_t>(basis.dimensions()[0]);
  const auto columns = static_cast<std::size_t>(basis.dimensions()[1]);
  const std::size_t expected = rows > 0 ? rows : params;
  if (of_parameters.size() != expected || columns != params ||
      (rows > 0 && state.adjoint)) {
    throw CircuitError("derivative: expected " + std::to_string(expected) +
                       " shift rules and a basis with " + std::to_string(params) +
                       " columns" + (state.adjoint ? " and no rows" : "") + ", got " +
                       std::to_string(of_parameters.size()) +
                       " shift rules and a basis of " + std::to_string(rows) +
                       " rows and " + std::to_string(columns) + " columns." + kDamaged);
  }
  const auto shape = directions.dimensions();
  checked_size(shape[1], kMostOrder, "order of a derivative along directions");
  return {state.order,
          {span_of(directions), static_cast<std::size_t>(shape[0]),
           static_cast<std::size_t>(shape[1])},
          {of_parameters, state.ends, state.coefficients, state.amounts},
          span_of(basis),
          state.adjoint,
          static_cast<std::size_t>(steps < 0 ? known : steps)};
}

// The handler of bellhop_circuit_derivative.
// Threading: any XLA thread; operations on one session wait for each other; distributes
// executions over XLA's threads.
// Ownership: borrows the session; closes it if an execution fails.
ffi::Error derivative_handler(DerivativeState* state, ffi::RunId run,
                              ffi::ThreadPool pool, HandleBuffer handle, Numbers data,
                              Numbers params, ffi::BufferR1<ffi::S32> rules,
                              ffi::BufferR2<ffi::F64> basis,
                              ffi::BufferR0<ffi::S32> steps,
                              ffi::BufferR2<ffi::F64> directions, HandleResult result,
                              ffi::ResultBufferR0<ffi::S32> saved,
                              ffi::Result<ffi::Buffer<ffi::F64>> values) {
  return with_session({run, handle, &result, state}, [&](Lease& lease) {
    const auto numbers = read_per_row(params, lease->rows);
    const Differentiation by =
        read_differentiation(*state, lease.session, numbers.size(), rules, basis,
                             *steps.typed_data(), directions);
    if (state->keep || by.directions.order > 0) require_one_circuit(lease.session);
    const Measured measured{state->list, read_per_row(data, lease->rows), state->sizes,
                            state->squares};
    const Helpers helpers = make_helpers(pool);
    differentiate(lease.session, numbers, by, measured, span_of(*values), helpers);
    *saved->typed_data() =
        state->keep ? save_derivative(lease.session, numbers, by, measured, helpers)
                    : -1;
  });
}

const Target kCircuitDerivative("bellhop_circuit_derivative",
                                profile_handler<handler<derivative_handler>>,
                                register_and_instantiate<prepare_derivative>);

}  // namespace
}  // namespace bellhop
