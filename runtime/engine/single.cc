// engine/single.cc: a circuit that is no batch, under way in the engine.
#include "engine/single.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/projections.h"
#include "engine/values.h"

namespace bellhop::engine {
namespace {

// Up to here a thread keeps the memory of a circuit for its next one of as many qubits:
// to allocate it takes longer than many a gate.
constexpr std::size_t kMostKept = 8;
thread_local std::unique_ptr<Single> kept;

void keep(Single* single) {
  std::unique_ptr<Single> owned(single);
  if (single->walk.states().layout().qubits <= kMostKept) kept = std::move(owned);
}

std::shared_ptr<Single> begin(const Session& session) {
  std::unique_ptr<Single> single = std::move(kept);
  if (!single || single->walk.states().layout().qubits != session.qubits) {
    return {new Single(session), keep};
  }
  single->done = 0;
  single->walk.let_go_back(session.keeps_steps);
  return {single.release(), keep};
}

Walk::Parameters own_parameters(const Step& step) {
  return {step.params.values.data(), 0};
}

// The circuit, after all of its steps.
Single& at_end(Session& session) {
  if (!session.in_engine) session.in_engine = begin(session);
  Single& single = *session.in_engine;
  if (single.done == 0) single.walk.begin();
  for (; single.done < session.steps.size(); ++single.done) {
    const Step& step = session.steps[single.done];
    single.walk.forward(step, own_parameters(step));
  }
  return single;
}

// Goes back to the beginning.
template <typename ParametersOf>
void differentiate(Walk& walk, std::span<const Step> steps,
                   const ParametersOf& parameters_of,
                   const std::vector<Amplitudes>& bras, std::span<double> jacobian,
                   std::size_t columns) {
  std::ranges::fill(jacobian, 0.0);
  const Gradients gradients{bras, jacobian.data(), columns, jacobian.size(), 1};
  for (std::size_t i = steps.size(); i-- > 0;) {
    walk.backward(steps[i], parameters_of(steps[i]), gradients);
  }
}

}  // namespace

Single::Single(const Session& session)
    : walk({session.qubits, /*rows_in_lanes=*/false}, session.keeps_steps) {}

void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians) {
  Single& single = at_end(session);
  States& states = single.walk.states();
  if (jacobians == nullptr) {
    const Sampling sampling{session.beginning->shots, &session.device->generator};
    return measure(states, measuring, {}, nullptr, sampling);
  }
  session.device->pool.expect_memory(Memory::kFree, session.qubits,
                                     1 + jacobians->expvals);
  std::vector<Amplitudes> bras;
  measure(states, measuring, {}, &bras);
  single.done = 0;
  differentiate(single.walk, session.steps, own_parameters, bras, jacobians->values,
                jacobians->columns);
  session.jacobian.emplace(jacobians->values.begin(), jacobians->values.end());
  // There are no dynamic-count parameters, and their derivative may be asked for.
  session.dynamic_count.begin(jacobians->expvals, 0);
}

bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire) {
  return attempt_mid_measurement(session, measurement, wire, [&] {
    Single& single = at_end(session);
    States& states = single.walk.states();
    const auto both = probabilities(states, single.walk.ket(), wire);
    const bool outcome = next_outcome(session, measurement, both);
    const Projection projection = session.branches.is_tree()
                                      ? Projection{wire, outcome, measurement.reset}
                                      : drawn(wire, outcome, measurement, both);
    session.steps.push_back({nullptr, 0, 0, {}, {}, projection});
    at_end(session);
    return outcome;
  });
}

void differentiate_at(const Session& session, std::span<const double> params,
                      const Measuring& measuring, std::span<double> jacobian,
                      std::size_t columns, Walk& walk) {
  const auto parameters_of = [&](const Step& step) -> Walk::Parameters {
    if (step.gates == nullptr || step.offset < 0) return own_parameters(step);
    return {params.data() + step.offset, 0};
  };
  walk.begin();
  for (const Step& step : session.steps) walk.forward(step, parameters_of(step));
  std::vector<Amplitudes> bras;
  measure(walk.states(), measuring, {}, &bras);
  differentiate(walk, session.steps, parameters_of, bras, jacobian, columns);
}

}  // namespace bellhop::engine
