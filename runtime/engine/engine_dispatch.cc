// engine/engine_dispatch.cc: decide which circuits the engine executes.
#include "engine/engine_dispatch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "circuit/dynamic_count.h"
#include "compiled_gates/plan.h"
#include "devices/checked_size.h"
#include "engine/single_circuit.h"
#include "gates/gate_table.h"

namespace bellhop::engine {
namespace {

using Kind = Measurement::Kind;

// Returns whether the engine supports all gates of a plan. Only the first gates may
// prepare a state.
bool applies(const Plan& plan, bool is_first) {
  return plan.not_applied().empty() && (is_first || !plan.prepares_state());
}

// Returns whether the engine can differentiate all gates of a plan that have
// differentiable parameters.
bool differentiates(const Plan& plan, std::int32_t offset) {
  return offset < 0 || plan.not_differentiated().empty();
}

// Returns the engine's plan for a step. Uses row 0: all rows apply the same gates.
// Dynamic wires were validated before.
std::shared_ptr<const Plan> plan_of(const Session& session, const Step& step) {
  const auto count = static_cast<std::size_t>(step.iterations);
  const auto wires = step.wires.of(0);
  return step.gates->part(0, {count, step.params.of(0).data(), wires}, session.qubits)
      .plan;
}

}  // namespace

bool has_large_operations(const Session& session, const Step& step) {
  return plan_of(session, step)->has_large_operations();
}

namespace {

// Returns whether every static-count parameter of a step has an index below
// `parameters`.
bool takes_of(const Step& step, std::size_t parameters) {
  if (is_dynamic_count(step.offset)) return true;
  // GateTable::check_sizes has checked, when the step was stored, that this does not
  // overflow.
  const std::size_t taken =
      static_cast<std::size_t>(step.iterations) * step.gates->parameters();
  if (step.offset == kLastParameters) return taken <= parameters;
  return step.offset < 0 || static_cast<std::size_t>(step.offset) + taken <= parameters;
}

// Returns whether all wires are in range. The engine declines invalid measurements
// (wires out of range or repeated in a product, results of another size), so that the
// plugin reports the error.
bool are_there(const std::vector<std::int64_t>& wires, std::size_t qubits) {
  return std::ranges::all_of(wires, [&](std::int64_t wire) {
    return wire >= 0 && wire < static_cast<std::int64_t>(qubits);
  });
}

// Returns whether the engine supports an observable.
bool measures(const std::vector<ObservableStep>& observable, std::size_t qubits) {
  using Step = ObservableStep::Kind;
  std::vector<std::uint64_t> wires;  // of the operands so far, as bits
  for (const ObservableStep& step : observable) {
    if (!are_there(step.wires, qubits)) return false;
    std::uint64_t all = 0;
    for (const std::int64_t wire : step.wires) all |= std::uint64_t{1} << wire;
    for (std::size_t i = 0; i < step.operands; ++i) {
      if (step.kind == Step::kTensor && (all & wires.back()) != 0) return false;
      all |= wires.back();
      wires.pop_back();
    }
    wires.push_back(all);
  }
  return true;
}

// Returns whether the engine supports a measurement.
bool measures(const Measurement& measurement, std::size_t qubits, std::size_t shots) {
  if (!are_there(measurement.wires, qubits)) return false;
  if (!engine_offer(measurement.kind).has_value(shots)) return false;
  if (measurement.kind == Kind::kFrequencies &&
      (measurement.shots() != shots || !are_there(measurement.signs, qubits))) {
    return false;
  }
  return measures(measurement.observable, qubits);
}

// Returns whether an output has the type and size of a measurement's result.
bool fits(const Measurement& measurement, std::size_t qubits, std::size_t shots,
          const Output& output) {
  using Type = Output::Type;
  const std::size_t wires =
      measurement.wires.empty() ? qubits : measurement.wires.size();
  const auto is = [&](Type type, std::size_t size) {
    return output.type == type && output.size == size;
  };
  switch (measurement.kind) {
    case Kind::kExpval:
    case Kind::kVar:
      return is(Type::kReal, 1);
    case Kind::kProbs:
      return is(Type::kReal, std::size_t{1} << wires);
    case Kind::kState:
      return is(Type::kComplex, std::size_t{1} << qubits);
    case Kind::kSample:
      return is(Type::kBit, shots * wires);
    case Kind::kRun:
      return is(Type::kBit, shots);
    case Kind::kFrequencies:
      return is(Type::kReal, measurement.groups.size() << measurement.wires.size());
    case Kind::kSnapshots:
    case Kind::kSnapshotMeans:
      return false;
  }
  return false;
}

// Returns whether the engine differentiates all measurements along a direction, which
// needs bras that are linear in the state.
bool have_jvp(const MeasurementList& list) {
  return std::ranges::all_of(list.measurements(), [](const Measurement& measurement) {
    return engine_offer(measurement.kind).jvp;
  });
}

// Returns whether the engine supports the derivatives of these measurements, and the
// Jacobians have their size.
bool fit(const MeasurementList& list, const Jacobians& jacobians, std::size_t qubits,
         std::size_t rows) {
  std::size_t values = 0;
  for (const Measurement& measurement : list.measurements()) {
    const std::size_t more = measurement.smooth_values(qubits);
    const Offer offer = engine_offer(measurement.kind);
    if (more == 0 || !offer.is_differentiable()) return false;
    values += more;
  }
  const auto& cotangents = jacobians.cotangents;
  const auto& direction = jacobians.direction;
  const std::size_t height = cotangents ? 1 : direction ? 2 * values : values;
  if (direction && (direction->size() != jacobians.columns || !have_jvp(list))) {
    return false;
  }
  return jacobians.height == height && (!cotangents || cotangents->size() == values) &&
         jacobians.values.size() ==
             checked_product(checked_product(rows, height, "Jacobian"),
                             jacobians.columns, "Jacobian");
}

// Returns whether the engine supports all measurements, and the outputs have their
// sizes.
bool measures(const Measuring& measuring, std::size_t qubits, std::size_t shots) {
  const auto& all = measuring.measurements.measurements();
  const bool has_outputs = !measuring.outputs.empty();
  if (has_outputs && measuring.outputs.size() != all.size()) return false;
  if (measuring.data.size() < measuring.measurements.numbers()) return false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!measures(all[i], qubits, shots)) return false;
    if (has_outputs && !fits(all[i], qubits, shots, measuring.outputs[i])) return false;
  }
  return true;
}

bool runs(const Session& session, const Measuring& measuring,
          const Jacobians* jacobians, std::size_t runs) {
  if (!session.waits || !can_store_gates(*session.beginning)) return false;
  const Step* first = nullptr;
  for (const Step& step : session.steps) {
    // Tangents support neither projections nor dynamic-count parameters.
    const bool stays = step.gates != nullptr && !is_dynamic_count(step.offset);
    if (jacobians != nullptr && jacobians->direction && !stays) return false;
    if (step.gates == nullptr) continue;
    if (first == nullptr) first = &step;
    const auto plan = plan_of(session, step);
    if (!applies(*plan, &step == first && !session.has_forgotten)) return false;
    if (jacobians == nullptr) continue;
    if (!differentiates(*plan, step.offset)) return false;
    if (!takes_of(step, jacobians->columns)) return false;
  }
  return (jacobians == nullptr ||
          fit(measuring.measurements, *jacobians, session.qubits, runs)) &&
         measures(measuring, session.qubits, session.beginning->shots);
}

}  // namespace

bool can_store_gates(const Beginning& beginning) {
  return beginning.engine && beginning.pool.is_lightning() && beginning.qubits > 0;
}

std::size_t most_qubits(const DevicePool& pool) {
  return pool.is_in_host_memory() ? kMostQubits : kMostQubitsOnGpus;
}

bool may_wait(const Session& session) {
  if (!session.waits || session.rows > 0) return true;
  const Step& last = session.steps.back();
  const auto plan = plan_of(session, last);
  if (!applies(*plan, session.steps.size() == 1 && !session.has_forgotten))
    return false;
  // Circuits that no plugin records are differentiated by shift rules.
  const bool by_tape = session.keeps_steps && is_for_tape(*session.beginning);
  return !by_tape || differentiates(*plan, last.offset);
}

bool runs_gates(const Session& session) {
  if (!session.waits || !can_store_gates(*session.beginning)) return false;
  const auto has_gates = [](const Step& step) { return step.gates != nullptr; };
  const auto first = std::ranges::find_if(session.steps, has_gates);
  return std::all_of(first, session.steps.end(), [&](const Step& step) {
    return !has_gates(step) || applies(*plan_of(session, step), &step == &*first);
  });
}

bool may_measure(const Session& session, std::int32_t wire) {
  return session.waits && are_there({wire}, session.qubits);
}

bool may_score(const Session& session, std::size_t parameters) {
  if (!session.waits || session.rows > 0 || !session.keeps_steps) return false;
  return std::ranges::all_of(session.steps, [&](const Step& step) {
    if (step.gates == nullptr) return true;
    return differentiates(*plan_of(session, step), step.offset) &&
           takes_of(step, parameters);
  });
}

bool runs(const Session& session, const Measuring& measuring,
          const Jacobians* jacobians) {
  // A single circuit without recorded steps has not stored the amplitudes that its
  // projections removed, so the adjoint method cannot undo these.
  if (jacobians != nullptr && session.rows == 0 && !session.keeps_steps) return false;
  return (!measuring.outputs.empty() || jacobians != nullptr) &&
         runs(session, measuring, jacobians, std::max<std::size_t>(session.rows, 1));
}

bool can_repeat(const Session& session, std::size_t parameters,
                const Measuring& measuring, const Jacobians* jacobians,
                std::size_t times) {
  if (!runs(session, measuring, jacobians, times)) return false;
  return std::ranges::all_of(session.steps, [&](const Step& step) {
    return step.gates == nullptr || takes_of(step, parameters);
  });
}

}  // namespace bellhop::engine
