// handlers/circuit_ops.cc: operations of circuits that several custom calls share.
#include "handlers/circuit_ops.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "derivatives/jacobian.h"
#include "derivatives/replay.h"
#include "devices/checked_size.h"
#include "engine/batch_execution.h"
#include "engine/engine_dispatch.h"
#include "engine/single_circuit.h"
#include "kernels/operation.h"
#include "measurements/flush_gates.h"
#include "measurements/measurement_request.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

constexpr const char* kJacobian = "Jacobian of measured values";

// Limits that no simulator reaches. Below them, all sizes that are computed from these
// numbers fit into 64 bits.
constexpr std::size_t kMostQubits = 1 << 16;
constexpr std::size_t kMostShots = std::size_t{1} << 40;
constexpr std::size_t kMostRows = std::size_t{1} << 31;

// The most runs of gates that a circuit stores, unless its derivatives need them all.
constexpr std::size_t kMostSteps = 4096;

// Returns the buffer of result i; throws CircuitError if it is missing.
ffi::AnyBuffer get_result(const ffi::RemainingRets& values, std::size_t i) {
  auto found = values.get<ffi::AnyBuffer>(i);
  if (!found) {
    throw CircuitError("measurement: expected at least " + std::to_string(i + 1) +
                       " results, got " + std::to_string(values.size()) + "." +
                       kDamaged);
  }
  return **found;
}

// Returns result i as the output of a measurement; throws CircuitError for other types.
Output get_output(const ffi::RemainingRets& values, std::size_t i) {
  const ffi::AnyBuffer value = get_result(values, i);
  const ffi::DataType type = value.element_type();
  if (type != ffi::F64 && type != ffi::C128 && type != ffi::U8) {
    throw CircuitError(
        "result " + std::to_string(i) +
        " of a measurement: expected type f64, c128 or u8, got XLA element type " +
        std::to_string(static_cast<int>(type)) + "." + kDamaged);
  }
  return {value.untyped_data(), count_elements(value, "result of a measurement"),
          type == ffi::F64    ? Output::Type::kReal
          : type == ffi::C128 ? Output::Type::kComplex
                              : Output::Type::kBit};
}

// Returns the last result as a Jacobian or VJP; throws CircuitError for other shapes.
Jacobians get_jacobians(const ffi::RemainingRets& values, std::size_t rows,
                        Derivative derivative, const Vector& vector) {
  if (values.size() == 0) {
    throw CircuitError(std::string(kJacobian) + ": expected a result, got none." +
                       kDamaged);
  }
  const std::size_t last = values.size() - 1;
  const Output output = get_output(values, last);
  const auto shape = get_result(values, last).dimensions();
  const bool is_vjp = derivative == Derivative::kVjp;
  const std::size_t rank = (is_vjp ? 1 : 2) + (rows > 0 ? 1 : 0);
  if (output.type != Output::Type::kReal || shape.size() != rank) {
    throw CircuitError(std::string(kJacobian) +
                       ": expected a result of type f64 with " + std::to_string(rank) +
                       " dimensions, got " +
                       (output.type == Output::Type::kReal ? "" : "another type and ") +
                       std::to_string(shape.size()) + " dimensions." + kDamaged);
  }
  const auto size = [&](std::size_t behind) {
    return static_cast<std::size_t>(shape[shape.size() - behind]);
  };
  Jacobians jacobians{std::span(static_cast<double*>(output.data), output.size),
                      is_vjp ? 1 : size(2), size(1)};
  // A dimension of size zero makes a buffer empty for any other dimensions.
  expect_count(checked_product(checked_product(std::max<std::size_t>(rows, 1),
                                               jacobians.height, kJacobian),
                               jacobians.columns, kJacobian),
               jacobians.values.size(), kJacobian);
  if (vector) {
    (is_vjp ? jacobians.cotangents : jacobians.direction) = read_per_row(*vector, rows);
  }
  return jacobians;
}

// Decodes the contract's attribute `precision`; throws CircuitError.
engine::Precision parse_precision(std::int64_t bits) {
  if (bits == 64) return engine::Precision::kDouble;
  if (bits == 32) return engine::Precision::kSingle;
  throw CircuitError("attribute precision of a circuit: expected 32 or 64, got " +
                     std::to_string(bits) + "." + kDamaged);
}

}  // namespace

Beginning parse_beginning(const BeginningAttributes& of, const std::string& circuit,
                          Outcomes outcomes) {
  Beginning begin{DevicePool::get(std::string(of.library), std::string(of.factory),
                                  std::string(of.kwargs)),
                  checked_size(of.qubits, kMostQubits, "qubits of a circuit"),
                  checked_size(of.shots, kMostShots, "shots of a circuit"),
                  of.record != 0,
                  of.record >= 2,
                  of.record == 3,
                  outcomes,
                  checked_size(of.rows, kMostRows, "rows of a batch of circuits"),
                  of.engine != 0,
                  parse_precision(of.precision),
                  of.rows > 0,
                  circuit};
  begin.waits |= engine::can_store_gates(begin);
  begin.pool.expect_memory(Memory::kAll, {begin.qubits, 1, begin.shots,
                                          engine::bytes_of_amplitude(begin.precision)});
  return begin;
}

std::int32_t parse_offset(std::int64_t value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (value < kLastParameters || value > kMost) {
    throw CircuitError("offset of the parameters of gates: expected -2 to " +
                       std::to_string(kMost) + ", got " + std::to_string(value) + "." +
                       kDamaged);
  }
  return static_cast<std::int32_t>(value);
}

Derivative parse_derivative(std::int64_t value) {
  if (value < 0 || value > static_cast<std::int64_t>(Derivative::kAlong)) {
    throw CircuitError("attribute jacobian of a measurement: expected 0 to 3, got " +
                       std::to_string(value) + "." + kDamaged);
  }
  return static_cast<Derivative>(value);
}

std::string circuit_name(std::string_view name, std::string_view site) {
  return "the QNode '" + std::string(name) + "' (" + std::string(site) + ")";
}

GivenNumbers read_numbers(const ffi::AnyBuffer& buffer, std::size_t rows) {
  const ffi::DataType type = buffer.element_type();
  const std::size_t parts = type == ffi::C128 || type == ffi::C64 ? 2 : 1;
  const auto shape = buffer.dimensions();
  const bool has_rows = shape.size() == 2 && rows > 0;
  if (shape.size() != 1 && !(has_rows && static_cast<std::size_t>(shape[0]) == rows)) {
    throw_wrong_rows({shape.begin(), shape.size()}, rows);
  }
  const std::size_t count = checked_product(
      parts, count_elements(buffer, "numbers of a circuit"), "numbers of a circuit");
  const std::size_t stride = has_rows ? parts * static_cast<std::size_t>(shape[1]) : 0;
  if (type == ffi::F64 || type == ffi::C128) {
    const auto* const numbers = static_cast<const double*>(buffer.untyped_data());
    return {{{numbers, count}, stride}, {}};
  }
  if (type == ffi::F32 || type == ffi::C64) {
    const auto* const numbers = static_cast<const float*>(buffer.untyped_data());
    return {{}, {{numbers, count}, stride}};
  }
  throw CircuitError(
      "parameters of gates: expected type f64, f32, c128 or c64, got XLA element "
      "type " +
      std::to_string(static_cast<int>(type)) + "." + kDamaged);
}

void apply_gates(Session& session, const GateTable& table, const GivenNumbers& params,
                 std::int32_t offset,
                 const PerRow<std::span<const std::int32_t>>& dynamic_wires,
                 std::int32_t iterations) {
  if (!session.waits) {
    const std::vector<double> doubles = as_doubles(params.singles).values;
    return table.apply(session,
                       doubles.empty() ? params.doubles.values : std::span(doubles),
                       offset, dynamic_wires.values, iterations);
  }
  table.keep(session, params, offset, dynamic_wires, iterations);
  if (!engine::may_wait(session)) return apply_waiting(session);
  // A loop that applies gates in each iteration must not store them forever.
  if (session.steps.size() >= kMostSteps) engine::apply_and_forget(session);
}

void take_measurements(Session& session, std::uint32_t place,
                       const MeasurementList& list,
                       const PerRow<std::span<const double>>& data,
                       const Vector& vector, const ffi::RemainingRets& values,
                       Derivative derivative, const Helpers& helpers) {
  const bool has_vector = derivative >= Derivative::kVjp;
  if (vector.has_value() != has_vector) {
    throw CircuitError(
        "measurement: expected a vector of cotangents or a direction if jacobian is 2 "
        "or "
        "3, and no vector otherwise, got jacobian = " +
        std::to_string(static_cast<int>(derivative)) + (vector ? " with" : " without") +
        " a vector." + kDamaged);
  }
  std::optional<Jacobians> jacobians;
  if (derivative != Derivative::kNone) {
    jacobians = get_jacobians(values, session.rows, derivative, vector);
  }
  std::vector<Output> outputs;
  outputs.reserve(values.size());
  for (std::size_t i = 0; i < values.size() - (jacobians ? 1 : 0); ++i) {
    Output output = get_output(values, i);
    if (session.rows > 0) {
      if (output.size % session.rows != 0) {
        throw CircuitError(
            "result " + std::to_string(i) +
            " of a measurement: expected equally many values for each of " +
            std::to_string(session.rows) + " rows, got " + std::to_string(output.size) +
            " values." + kDamaged);
      }
      output.size /= session.rows;
    }
    outputs.push_back(output);
  }
  const Measuring measuring{list, data, outputs};
  const Jacobians* const asked = jacobians ? &*jacobians : nullptr;
  if (engine::runs(session, measuring, asked)) {
    engine::run(session, measuring, asked, helpers);
    profile_engine(place);
  } else if (has_vector) {
    throw CircuitError(
        "vector-Jacobian products and derivatives along a direction are supported only "
        "by Bellhop's engine, which does not support an operation of this circuit. Use "
        "qjit(engine='plugin'), which compiles the circuit without them.");
  } else if (session.branches.is_drawn()) {
    throw CircuitError(
        "shots that share an execution are supported only by Bellhop's engine, which "
        "does not support an operation of this circuit. Use qjit(engine='plugin'), "
        "which executes each shot by itself.");
  } else if (session.rows > 0) {
    run_batch(session, measuring, asked, helpers);
  } else {
    apply_waiting(session);
    list.measure(session, data.values, outputs);
    if (jacobians) {
      adjoint_jacobian(session, jacobians->values, jacobians->height,
                       jacobians->columns);
    }
  }
}

}  // namespace bellhop
