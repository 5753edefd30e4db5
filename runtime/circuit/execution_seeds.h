// circuit/execution_seeds.h: seeds for the circuit executions of one handler call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "circuit/random_numbers.h"
#include "devices/device_pool.h"

namespace bellhop {

// Seeds the generator of each circuit execution of one handler call, if the device
// draws samples. The seed depends only on the index of the execution, not on its
// thread.
class RunSeeds {
 public:
  // Draws four numbers from the device's generator, unless the device has no shots.
  explicit RunSeeds(Device& device) {
    if (device.shots == 0) return;
    for (std::uint32_t& word : words_.emplace()) {
      word = static_cast<std::uint32_t>(device.generator());
    }
  }

  // Seeds a generator for the execution with the index `run` in the handler call; does
  // nothing without shots.
  void seed(std::mt19937& generator, std::size_t run) const {
    if (!words_) return;
    const auto& [a, b, c, d] = *words_;
    std::seed_seq words{a,
                        b,
                        c,
                        d,
                        static_cast<std::uint32_t>(run),
                        static_cast<std::uint32_t>(run >> 32)};
    generator.seed(words);
  }

  // The random key of a run's samples in the engine; a key of zeros without shots.
  RandomKey key(std::size_t run) const {
    return {words_.value_or(std::array<std::uint32_t, 4>{}), run};
  }

 private:
  std::optional<std::array<std::uint32_t, 4>> words_;
};

}  // namespace bellhop
