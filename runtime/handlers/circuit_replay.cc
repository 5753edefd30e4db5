// handlers/circuit_replay.cc: bellhop_circuit_replay and
// bellhop_circuit_replay_jacobian.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "derivatives/replay.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The parsed measurements of a compiled replay. Shared by all executions, never
// changed.
struct ReplayState {
  static constexpr const char* kTypeName = "bellhop_circuit_replay_state";
  static inline ffi::TypeId id = {};
  MeasurementList list;
};

ffi::ErrorOr<std::unique_ptr<ReplayState>> prepare_replay(
    List<"code", std::int64_t> code) {
  return instantiate<ReplayState>([&] {
    return std::make_unique<ReplayState>(ReplayState{MeasurementList(code)});
  });
}

using Numbers = ffi::Buffer<ffi::F64>;  // of all rows of a batch, or of each
using Indices = ffi::BufferR2<ffi::S32>;
using Amounts = ffi::BufferR2<ffi::F64>;

Shifts read_shifts(const Session& session, const Indices& indices,
                   const Amounts& amounts) {
  if (indices.element_count() != amounts.element_count()) {
    throw CircuitError("A circuit is run again with " +
                       std::to_string(indices.element_count()) + " indices and " +
                       std::to_string(amounts.element_count()) + " amounts of shifts.");
  }
  const auto shape = indices.dimensions();
  return {span_of(indices), span_of(amounts), static_cast<std::size_t>(shape[0]),
          static_cast<std::size_t>(shape[1]), session.steps.size()};
}

// Threading: any XLA thread; operations on one session wait for each other, and the
// runs are shared with XLA's threads.
// Ownership: the session is borrowed, and ends here if a run fails.
ffi::Error run_again(ReplayState* state, ffi::RunId run, ffi::ThreadPool pool,
                     HandleBuffer handle, Numbers data, Numbers params, Indices indices,
                     Amounts amounts, HandleResult result, ffi::RemainingRets values) {
  return with_session({run, handle, &result, state}, [&](Lease& lease) {
    const Shifts shifts = read_shifts(lease.session, indices, amounts);
    const std::size_t runs = std::max<std::size_t>(lease->rows, 1) * shifts.rows;
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ffi::AnyBuffer value = **values.get<ffi::AnyBuffer>(i);
      if (value.element_type() != ffi::F64) {
        throw CircuitError("Result " + std::to_string(i) +
                           " of a circuit that is run again: expected type f64.");
      }
      outputs.push_back({value.untyped_data(),
                         value.element_count() / std::max<std::size_t>(runs, 1)});
    }
    replay(lease.session, read_per_row(params, lease->rows), shifts,
           {state->list, read_per_row(data, lease->rows), outputs}, helpers_of(pool));
  });
}

// Threading: any XLA thread; operations on one session wait for each other, and the
// runs are shared with XLA's threads.
// Ownership: the session is borrowed, and ends here if a run fails.
ffi::Error run_again_for_jacobian(ReplayState* state, ffi::RunId run,
                                  ffi::ThreadPool pool, HandleBuffer handle,
                                  Numbers data, Numbers params, Indices indices,
                                  Amounts amounts, HandleResult result,
                                  ffi::Result<ffi::Buffer<ffi::F64>> jacobians) {
  return with_session({run, handle, &result, state}, [&](Lease& lease) {
    const auto numbers = read_per_row(params, lease->rows);
    replay_jacobian(
        lease.session, numbers, read_shifts(lease.session, indices, amounts),
        {state->list, read_per_row(data, lease->rows), {}},
        {span_of(*jacobians), state->list.size(), numbers.size()}, helpers_of(pool));
  });
}

const Target kCircuitReplay("bellhop_circuit_replay", profiled<handler<run_again>>,
                            preparing<prepare_replay>);
const Target kCircuitReplayJacobian("bellhop_circuit_replay_jacobian",
                                    profiled<handler<run_again_for_jacobian>>,
                                    preparing<prepare_replay>);

}  // namespace
}  // namespace bellhop
