// handlers/circuit_ops.h: operations of circuits that several custom calls share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "circuit/batched_view.h"
#include "circuit/gate_numbers.h"
#include "circuit/session.h"
#include "ffi/handler.h"
#include "gates/gate_table.h"
#include "measurements/measurement_list.h"
#include "threads/thread_team.h"

namespace bellhop {

// The attributes of the contract that describe a circuit, in the contract's encoding.
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

// Decodes and checks the attributes of a circuit. Opens the plugin, so that a program
// that cannot run fails to compile, and checks the memory before XLA allocates the
// results. Throws CircuitError.
Beginning parse_beginning(const BeginningAttributes& attributes,
                          const std::string& circuit,
                          Outcomes outcomes = Outcomes::kNone);

// Returns the name of a circuit in errors, with its QNode and source line.
std::string circuit_name(std::string_view name, std::string_view site);

// Reads the parameters of gates, as the contract has them: real, or complex as real and
// imaginary parts in turn, in double or single precision.
GivenNumbers read_numbers(const ffi::AnyBuffer& buffer, std::size_t rows);

// Applies a sequence of gates to a session that the caller holds, or stores it there if
// gates are applied later.
void apply_gates(Session& session, const GateTable& table, const GivenNumbers& params,
                 std::int32_t offset,
                 const PerRow<std::span<const std::int32_t>>& dynamic_wires,
                 std::int32_t iterations);

// Decodes the contract's attribute `offset`; throws CircuitError.
std::int32_t parse_offset(std::int64_t value);

// Which derivative a measurement returns: the contract's attribute `jacobian`. kAlong:
// the Jacobian and its derivative along a direction. parse_derivative throws
// CircuitError.
enum class Derivative : std::uint8_t { kNone, kJacobian, kVjp, kAlong };
Derivative parse_derivative(std::int64_t value);

// For a VJP, a cotangent for each value of a row; for a derivative along a direction, a
// tangent for each parameter.
using Vector = std::optional<ffi::Buffer<ffi::F64>>;

// Measures a session that the caller holds, and writes the results to `values`. With a
// Jacobian, that is the last of `values`. With a VJP, or with a Jacobian and its
// derivative along a vector, that is the only one. `place` identifies the circuit in
// profiles.
void take_measurements(Session& session, std::uint32_t place,
                       const MeasurementList& list,
                       const PerRow<std::span<const double>>& data,
                       const Vector& vector, const ffi::RemainingRets& values,
                       Derivative derivative, const Helpers& helpers);

}  // namespace bellhop
