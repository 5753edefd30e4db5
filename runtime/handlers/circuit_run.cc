// handlers/circuit_run.cc: bellhop_circuit_run.
#include <memory>
#include <optional>
#include <utility>

#include "callbacks/lookup.h"
#include "gates/gate_table.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_ops.h"
#include "measurements/measurement_list.h"
#include "profile/active_calls.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// A compiled circuit. Shared by all executions, never changed.
struct RunState {
  static inline ffi::TypeId id = {};
  Beginning beginning;
  GateTable table;
  std::int32_t offset;
  MeasurementList list;
  Derivative derivative;

  RunState(Beginning begun, GateTable gates, std::int32_t first, MeasurementList code,
           Derivative by)
      : beginning(std::move(begun)),
        table(std::move(gates)),
        offset(first),
        list(std::move(code)),
        derivative(by) {}
  ~RunState() { end_sessions_of(beginning); }
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;
};

ffi::ErrorOr<std::unique_ptr<RunState>> prepare_run(
    Text<"library"> library, Text<"factory"> factory, Text<"kwargs"> kwargs,
    Integer<"qubits"> qubits, Integer<"record"> record, Integer<"rows"> rows,
    Integer<"engine"> engine, Integer<"precision"> precision,
    Integer<"program"> /*program*/, Text<"name"> name, Text<"site"> site,
    Text<"names"> names, List<"code", std::int64_t> code,
    List<"constants", double> constants, Integer<"offset"> offset,
    List<"measurements", std::int64_t> measurements, Integer<"jacobian"> jacobian) {
  const std::string circuit = circuit_name(name, site);
  const auto build = [&] {
    return std::make_unique<RunState>(
        beginning_of(
            {library, factory, kwargs, qubits, 0, record, rows, engine, precision},
            circuit),
        GateTable(names, code, constants), offset_of(offset),
        MeasurementList(measurements), derivative_of(jacobian));
  };
  return instantiate<RunState>(build, circuit);
}

// One of those that there need not be.
template <ffi::DataType kType>
ffi::Buffer<kType> operand(const ffi::RemainingArgs& others, std::size_t index) {
  const auto found = others.get<ffi::Buffer<kType>>(index);
  if (!found) throw CircuitError("An operand is missing, or of another type.");
  return *found;
}

// Threading: any XLA thread; the rows of a batch are shared with XLA's threads.
// Ownership: the session begins and ends here.
ffi::Error run(RunState* state, ffi::RunId id, ffi::ThreadPool pool,
               ffi::Buffer<ffi::F64> params, ffi::Buffer<ffi::F64> data,
               ffi::RemainingArgs others, ffi::RemainingRets values) {
  const Beginning& beginning = state->beginning;
  return guarded(state, id, beginning, [&] {
    const CircuitUnderWay here(beginning.circuit, beginning.pool.name());
    const bool has_wires = state->table.has_dynamic_wires();
    PerRow<std::span<const std::int32_t>> wires;
    if (has_wires) {
      wires = read_per_row(operand<ffi::S32>(others, 0), beginning.rows);
    }
    Vector vector;
    if (others.size() > has_wires) vector = operand<ffi::F64>(others, has_wires);
    const Handle handle = begin_session(beginning, std::nullopt, id.run_id);
    {
      Lease lease = open_session(handle, id.run_id);
      apply_gates(lease.session, state->table, read_per_row(params, beginning.rows),
                  state->offset, wires, 1);
      take_measurements(lease.session, whole_circuit_of_thread(), state->list,
                        read_per_row(data, beginning.rows), vector, values,
                        state->derivative, helpers_of(pool));
    }
    end_session(handle, id.run_id);
  });
}

const Target kCircuitRun(
    "bellhop_circuit_run",
    profiled<handler<run, find_table_of_program>, CircuitStep::kWhole>,
    preparing<prepare_run>);

}  // namespace
}  // namespace bellhop
