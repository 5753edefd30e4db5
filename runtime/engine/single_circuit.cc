// engine/single_circuit.cc: execute a single circuit in the engine.
#include "engine/single_circuit.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "states/measure_state.h"
#include "states/projections.h"

namespace bellhop::engine {
namespace {

// Up to this many qubits, a thread keeps the memory of a circuit for its next circuit
// of the same size: allocating it takes longer than many gates.
constexpr std::size_t kMostKept = 8;
thread_local std::unique_ptr<Single> kept;

void keep(Single* single) {
  std::unique_ptr<Single> owned(single);
  if (single->walk.states().layout().qubits <= kMostKept) kept = std::move(owned);
}

void expect_states(const Session& session, std::size_t states) {
  session.device->pool.expect_memory(
      Memory::kFree,
      {session.qubits, states, 0, bytes_of_amplitude(session.beginning->precision)});
}

Layout layout_of(const Session& session) {
  return {session.qubits, /*rows_in_lanes=*/false, session.beginning->precision};
}

std::shared_ptr<Single> begin(const Session& session) {
  std::unique_ptr<Single> single = std::move(kept);
  if (!single || single->walk.states().layout() != layout_of(session)) {
    expect_states(session, 1);
    return {new Single(session), keep};
  }
  single->restart();
  single->samples.clear();
  single->walk.let_go_back(session.keeps_steps);
  return {single.release(), keep};
}

// Lends helper threads to the states, for its lifetime.
class Lent {
 public:
  Lent(States& states, const Helpers& helpers) : states_(states) {
    states.lend(&helpers);
  }
  ~Lent() { states_.lend(nullptr); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  States& states_;
};

Walk::Inputs own_inputs(const Step& step) {
  return {step.params.values.data(), 0, step.wires.values, step.singles,
          /*are_kept=*/true};
}

// Undoes all steps and adds their derivatives.
template <typename InputsOf>
void differentiate(Walk& walk, std::span<const Step> steps, const InputsOf& inputs_of,
                   const std::vector<Amplitudes>& bras, const Jacobians& jacobians,
                   std::size_t number) {
  const std::size_t size = jacobians.height * jacobians.columns;
  const std::span<double> jacobian = jacobians.values.subspan(number * size, size);
  const std::size_t dynamic_size = jacobians.height * jacobians.dynamic_count_columns;
  const std::span<double> by_dynamic_count =
      jacobians.by_dynamic_count.subspan(number * dynamic_size, dynamic_size);
  std::ranges::fill(jacobian, 0.0);
  std::ranges::fill(by_dynamic_count, 0.0);
  const Gradients gradients{bras,
                            jacobian.data(),
                            jacobians.columns,
                            size,
                            1,
                            dynamic_size > 0 ? by_dynamic_count.data() : nullptr,
                            jacobians.dynamic_count_columns};
  for (std::size_t i = steps.size(); i-- > 0;) {
    walk.backward(steps[i], inputs_of(steps[i]), gradients);
  }
}

}  // namespace

Single::Single(const Session& session)
    : walk(layout_of(session), session.keeps_steps) {}

Single& apply_remaining_steps(Session& session, const Direction& direction) {
  if (!session.in_engine) session.in_engine = begin(session);
  Single& single = *session.in_engine;
  if (!single.begun) single.walk.begin(direction);
  single.begun = true;
  for (; single.done < session.steps.size(); ++single.done) {
    const Step& step = session.steps[single.done];
    single.walk.forward(step, own_inputs(step));
  }
  return single;
}

void apply_and_forget(Session& session) {
  if (session.keeps_steps || session.rows > 0) return;
  Single& single = apply_remaining_steps(session);
  single.walk.forget_steps();
  session.steps.clear();
  single.done = 0;
  session.has_forgotten = true;
}

void measure_single(Session& session, const Measuring& measuring,
                    const Jacobians* jacobians, const Helpers& helpers) {
  if (!session.in_engine) session.in_engine = begin(session);
  const Lent lent(session.in_engine->walk.states(), helpers);
  Direction direction;
  if (jacobians != nullptr && jacobians->direction) {
    direction = {jacobians->direction->values};
    session.in_engine->restart();
  }
  Single& single = apply_remaining_steps(session, direction);
  States& states = single.walk.states();
  std::vector<std::uint32_t> drawn;
  const ShotNumbers shots = session.branches.is_drawn()
                                ? ShotNumbers(session.branches.shots())
                                : ShotNumbers(session.beginning->shots);
  const RunSeeds seeds(*session.device);
  const Sampling sampling{shots, &seeds, &drawn};
  if (jacobians == nullptr) {
    measure(states, measuring, {}, sampling);
    if (drawn.size() == 1) {
      single.samples.push_back({session.steps.size(), drawn.front()});
    }
    return;
  }
  expect_states(session, (jacobians->direction ? 2 : 1) + jacobians->height);
  const std::vector<Amplitudes> bras =
      bras_of(states, measuring, {}, *jacobians, sampling);
  single.restart();
  const std::size_t columns = dynamic_count_columns(session.steps);
  session.dynamic_count.begin(jacobians->height, columns);
  Jacobians all = *jacobians;
  all.by_dynamic_count = session.dynamic_count.newest().numbers;
  all.dynamic_count_columns = columns;
  differentiate(single.walk, session.steps, own_inputs, bras, all, 0);
}

bool measure_wire(Session& session, const MidMeasurement& measurement,
                  std::int32_t wire) {
  return attempt_mid_measurement(session, measurement, wire, [&] {
    Single& single = apply_remaining_steps(session);
    States& states = single.walk.states();
    const auto both = probabilities(states, single.walk.ket(), wire);
    const bool outcome = next_outcome(session, measurement, both);
    const Projection projection =
        session.branches.normalizes()
            ? make_projection(wire, outcome, measurement, both)
            : Projection{wire, outcome, measurement.reset};
    session.steps.push_back({nullptr, 0, 0, {}, {}, projection});
    apply_remaining_steps(session);
    return outcome;
  });
}

void run_again(std::span<const Step> steps, std::size_t row,
               const ParametersOf& parameters_of, const Measuring& measuring,
               const Jacobians* jacobians, std::size_t number, const Sampling& sampling,
               Walk& walk) {
  const auto inputs = [&](const Step& step) -> Walk::Inputs {
    if (step.gates == nullptr) return {};
    return {parameters_of(step).data(), 0, step.wires.of(row)};
  };
  walk.begin();
  for (const Step& step : steps) walk.forward(step, inputs(step));
  const RowRange run{number, 1};
  if (jacobians == nullptr) {
    return measure(walk.states(), measuring, run, sampling);
  }
  const auto bras = bras_of(walk.states(), measuring, run, *jacobians, sampling);
  differentiate(walk, steps, inputs, bras, *jacobians, number);
}

}  // namespace bellhop::engine
