// states/sampling.cc: samples of states of the engine.
#include "states/sampling.h"

#include <algorithm>
#include <cmath>

#include "devices/error.h"
#include "measurements/samples.h"

namespace bellhop::engine {

// By inversion: the first amplitude at which the probabilities so far exceed a number
// that is drawn. A table says where to begin to look for it, so that one or two steps
// are left on average.
std::vector<std::uint32_t> draw(const States& states, const Amplitudes& ket,
                                std::size_t lane, std::size_t shots,
                                std::mt19937& generator) {
  const std::size_t size = std::size_t{1} << states.layout().qubits;
  // The memory of all vectors here is first touched in loops that signals interrupt.
  std::vector<double> ends;
  ends.reserve(size);
  double total = 0;
  std::uint32_t last = 0;  // that can come
  const auto add_up = [&](auto numbers) {
    for_each_sample(size, [&](std::size_t i) {
      const double real = numbers.real[i * states.lanes() + lane];
      const double imag = numbers.imag[i * states.lanes() + lane];
      const double probability = real * real + imag * imag;
      if (probability > 0) last = static_cast<std::uint32_t>(i);
      ends.push_back(total += probability);
    });
  };
  with_numbers(states.layout(), add_up, ket);
  if (std::isnan(total)) throw CircuitError(kNoProbabilities);
  // More of it than shots would not be used.
  const std::size_t parts = std::min(size, shots);
  std::vector<std::uint32_t> begins;
  begins.reserve(parts);
  std::uint32_t first = 0;
  for_each_sample(parts, [&](std::size_t part) {
    const double below = total * static_cast<double>(part) / static_cast<double>(parts);
    while (first < last && ends[first] <= below) ++first;
    begins.push_back(first);
  });
  std::uniform_real_distribution<> uniform;
  std::vector<std::uint32_t> found;
  found.reserve(shots);
  for_each_sample(shots, [&](std::size_t) {
    const double number = uniform(generator);
    const auto part = static_cast<std::size_t>(number * static_cast<double>(parts));
    // Rounded, a number may lie just below its part.
    std::uint32_t index = begins[std::min(part, parts - 1)];
    while (index > 0 && ends[index - 1] > number * total) --index;
    while (index < last && ends[index] <= number * total) ++index;
    found.push_back(index);
  });
  return found;
}

}  // namespace bellhop::engine
