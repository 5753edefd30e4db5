// engine/score.cc: the score function, which is the derivative of the logarithm of the
// probability of an execution's samples and outcomes.
#include "engine/score.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/single_circuit.h"

namespace bellhop::engine {
namespace {

// Sets all amplitudes to zero except the amplitude of a sample, which is divided by its
// probability.
void take_sample(const States& states, const Amplitudes& bra, std::uint32_t sample) {
  const auto take = [&]<typename Real>(AmplitudesOf<Real> numbers) {
    const double real = numbers.real[sample], imag = numbers.imag[sample];
    const double probability = real * real + imag * imag;
    states.set_zero(bra);
    numbers.real[sample] = static_cast<Real>(real / probability);
    numbers.imag[sample] = static_cast<Real>(imag / probability);
  };
  with_numbers(states.layout(), take, bra);
}

// Adds the derivative for the outcomes of the first steps, and for a sample after them.
// The state is normalized after each outcome; the normalization cancels in the
// derivative of the logarithm.
void add(Walk& walk, std::span<const Step> steps, std::optional<std::uint32_t> sample,
         double weight, std::span<double> result, std::span<double> by_dynamic_count) {
  const auto inputs = [](const Step& step) -> Walk::Inputs {
    return {step.params.values.data(), 0, step.wires.values};
  };
  walk.begin();
  for (const Step& step : steps) walk.forward(step, inputs(step));
  States& states = walk.states();
  const Amplitudes bra = states.get(1);
  states.copy(walk.ket(), bra);
  if (sample) take_sample(states, bra, *sample);
  states.multiply(bra, weight);
  const Gradients gradients{
      std::span(&bra, 1),
      result.data(),
      result.size(),
      result.size(),
      1,
      by_dynamic_count.empty() ? nullptr : by_dynamic_count.data(),
      by_dynamic_count.size()};
  for (std::size_t i = steps.size(); i-- > 0;) {
    walk.backward(steps[i], inputs(steps[i]), gradients);
  }
}

}  // namespace

std::int32_t score(Session& session, std::span<double> result) {
  std::ranges::fill(result, 0.0);
  const std::int32_t kept =
      session.dynamic_count.begin(1, dynamic_count_columns(session.steps));
  const std::span<double> more = session.dynamic_count.newest().numbers;
  Single& single = apply_remaining_steps(session);
  const std::span<const Step> steps(session.steps);
  for (const auto& [n_steps, sample] : single.samples) {
    add(single.walk, steps.first(n_steps), sample, 1, result, more);
  }
  // Each sample's derivative includes the outcomes, which were drawn only once.
  const double rest = 1 - static_cast<double>(single.samples.size());
  if (rest != 0) add(single.walk, steps, std::nullopt, rest, result, more);
  single.done = 0;
  return kept;
}

}  // namespace bellhop::engine
