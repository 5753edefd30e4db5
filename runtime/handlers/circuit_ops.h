// handlers/circuit_ops.h: what circuits do, in one custom call or in several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "circuit/batched_view.h"
#include "circuit/session.h"
#include "ffi/handler.h"
#include "gates/gate_table.h"
#include "measurements/measurement_list.h"
#include "threads/thread_team.h"

namespace bellhop {

// What circuits begin with, as the contract's attributes of these names say.
struct BeginningAttributes {
  std::string_view library;
  std::string_view factory;
  std::string_view kwargs;
  std::int64_t qubits;
  std::int64_t shots;
  std::int64_t record;
  std::int64_t rows;
  std::int64_t engine;
  std::int64_t precision;
};

// The plugin is opened here, so that a program that cannot run does not compile; and
// before XLA has allocated the results of one that does not fit. Throws CircuitError.
Beginning parse_beginning(const BeginningAttributes& attributes,
                          const std::string& circuit, Tree tree = Tree::kNone,
                          Redraw redraw = Redraw::kNever);

// A circuit as the errors of compilation call it.
std::string circuit_name(std::string_view name, std::string_view site);

// Applies a run of gates to a session that the caller holds, or keeps it there.
void apply_gates(Session& session, const GateTable& table,
                 const PerRow<std::span<const double>>& params, std::int32_t offset,
                 const PerRow<std::span<const std::int32_t>>& dynamic_wires,
                 std::int32_t iterations);

// The contract's `offset` as an attribute; throws CircuitError where it is none.
std::int32_t parse_offset(std::int64_t value);

// What the contract's `jacobian` says.
enum class Derivative : std::uint8_t { kNone, kJacobian, kVjp, kAlong };
Derivative parse_derivative(std::int64_t value);

// Of a VJP, a number for each value of a row, and of a derivative along a direction one
// for each parameter.
using Vector = std::optional<ffi::Buffer<ffi::F64>>;

// Writes measurements of a session that the caller holds to XLA's `values`, and the
// Jacobian to the last of them if it is asked for; or a VJP, or the Jacobian and its
// derivative along the vector, to the only one. Profiles know the circuit by `place`.
void take_measurements(Session& session, std::uint32_t place,
                       const MeasurementList& list,
                       const PerRow<std::span<const double>>& data,
                       const Vector& vector, const ffi::RemainingRets& values,
                       Derivative derivative, const Helpers& helpers);

}  // namespace bellhop
