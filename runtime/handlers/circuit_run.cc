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

// The state of a compiled bellhop_circuit_run. Shared by all executions, never changed.
struct RunState {
  static inline ffi::TypeId id = {};
  Beginning beginning;
  GateTable table;
  std::int32_t offset;
  // Of the amplitudes that the state is prepared from, if it is.
  std::optional<GateTable> preparation;
  std::int32_t preparation_offset;
  MeasurementList list;
  Derivative derivative;

  RunState(Beginning begun, GateTable gates, std::int32_t first,
           std::optional<GateTable> prepares, std::int32_t amplitudes,
           MeasurementList code, Derivative by)
      : beginning(std::move(begun)),
        table(std::move(gates)),
        offset(first),
        preparation(std::move(prepares)),
        preparation_offset(amplitudes),
        list(std::move(code)),
        derivative(by) {}
  ~RunState() { end_sessions_begun_by(beginning); }
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;
};

// Creates the state of a compiled bellhop_circuit_run from its attributes.
ffi::ErrorOr<std::unique_ptr<RunState>> prepare_run(
    Text<"library"> library, Text<"factory"> factory, Text<"kwargs"> kwargs,
    Integer<"qubits"> qubits, Integer<"record"> record, Integer<"rows"> rows,
    Integer<"engine"> engine, Integer<"precision"> precision,
    Integer<"program"> /*program*/, Text<"name"> name, Text<"site"> site,
    Text<"names"> names, List<"code", std::int64_t> code,
    List<"constants", double> constants, Integer<"offset"> offset,
    List<"preparation", std::int64_t> preparation,
    Integer<"preparation_offset"> preparation_offset,
    List<"measurements", std::int64_t> measurements, Integer<"jacobian"> jacobian) {
  const std::string circuit = circuit_name(name, site);
  const auto build = [&] {
    std::optional<GateTable> prepares;
    const std::span<const std::int64_t> of_state = preparation;
    if (!of_state.empty()) {
      prepares.emplace("StatePrep", of_state, std::span<const double>());
    }
    return std::make_unique<RunState>(
        parse_beginning(
            {library, factory, kwargs, qubits, 0, record, rows, engine, precision},
            circuit),
        GateTable(names, code, constants), parse_offset(offset), std::move(prepares),
        parse_offset(preparation_offset), MeasurementList(measurements),
        parse_derivative(jacobian));
  };
  return instantiate<RunState>(build, circuit);
}

// Returns an optional operand; throws CircuitError if it is missing or has another
// type.
template <typename Buffer>
Buffer get_operand(const ffi::RemainingArgs& others, std::size_t index) {
  const auto found = others.get<Buffer>(index);
  if (!found)
    throw CircuitError("bellhop_circuit_run: operand " + std::to_string(index) +
                       " after the fixed operands is missing, or its type differs from "
                       "runtime/contract.toml." +
                       kDamaged);
  return *found;
}

// The handler of bellhop_circuit_run.
// Threading: any XLA thread; distributes the rows of a batch over XLA's threads.
// Ownership: opens and closes the session.
ffi::Error run_handler(RunState* state, ffi::RunId id, ffi::ThreadPool pool,
                       ffi::AnyBuffer params, ffi::Buffer<ffi::F64> data,
                       ffi::RemainingArgs others, ffi::RemainingRets values) {
  const Beginning& beginning = state->beginning;
  return run_guarded(state, id, beginning, [&] {
    const ActiveCircuit active(beginning.circuit, beginning.pool.name());
    const std::size_t rows = beginning.rows;
    std::size_t next = 0;
    PerRow<std::span<const std::int32_t>> wires;
    if (state->table.has_dynamic_wires()) {
      wires = read_per_row(get_operand<ffi::Buffer<ffi::S32>>(others, next++), rows);
    }
    GivenNumbers amplitudes;
    if (state->preparation) {
      amplitudes = read_numbers(get_operand<ffi::AnyBuffer>(others, next++), rows);
    }
    Vector vector;
    if (others.size() > next) vector = get_operand<ffi::Buffer<ffi::F64>>(others, next);
    const Handle handle = begin_session(beginning, std::nullopt, id.run_id);
    {
      Lease lease = open_session(handle, id.run_id);
      lease->borrows = true;
      if (state->preparation) {
        apply_gates(lease.session, *state->preparation, amplitudes,
                    state->preparation_offset, {}, 1);
      }
      apply_gates(lease.session, state->table, read_numbers(params, rows),
                  state->offset, wires, 1);
      take_measurements(lease.session, whole_circuit_of_thread(), state->list,
                        read_per_row(data, rows), vector, values, state->derivative,
                        make_helpers(pool));
    }
    end_session(handle, id.run_id);
  });
}

const Target kCircuitRun(
    "bellhop_circuit_run",
    profile_handler<handler<run_handler, find_table_of_program>, CircuitStep::kWhole>,
    register_and_instantiate<prepare_run>);

}  // namespace
}  // namespace bellhop
