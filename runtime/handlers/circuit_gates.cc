// handlers/circuit_gates.cc: bellhop_circuit_gates.
#include <optional>
#include <string_view>

#include "gates/gate_table.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_ops.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The state of a compiled bellhop_circuit_gates: its parsed gates. Shared by all
// executions, never changed.
struct GatesState {
  static inline ffi::TypeId id = {};
  GateTable table;
};

// Creates the state of a compiled bellhop_circuit_gates from its attributes.
ffi::ErrorOr<std::unique_ptr<GatesState>> prepare_gates(
    Text<"names"> names, List<"code", std::int64_t> code,
    List<"constants", double> constants) {
  return instantiate<GatesState>([&] {
    return std::make_unique<GatesState>(GatesState{GateTable(names, code, constants)});
  });
}

// The handler of bellhop_circuit_gates.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if a gate fails. A session that stores
// gates copies the operands.
ffi::Error gates_handler(GatesState* state, ffi::RunId run, HandleBuffer handle,
                         ffi::AnyBuffer params, ffi::BufferR0<ffi::S32> offset,
                         ffi::Buffer<ffi::S32> dynamic_wires,
                         std::optional<ffi::BufferR0<ffi::S32>> iterations,
                         HandleResult result) {
  return with_session({run, handle, &result, state}, [&](Lease& lease) {
    const std::int32_t first = *offset.typed_data();
    const std::int32_t count = iterations ? *iterations->typed_data() : 1;
    const std::size_t rows = lease->rows;
    apply_gates(lease.session, state->table, read_numbers(params, rows), first,
                read_per_row(dynamic_wires, rows), count);
  });
}

const Target kCircuitGates("bellhop_circuit_gates",
                           profile_handler<handler<gates_handler>>,
                           register_and_instantiate<prepare_gates>);

}  // namespace
}  // namespace bellhop
