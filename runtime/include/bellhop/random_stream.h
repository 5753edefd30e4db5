// bellhop/random_stream.h: seeds for the circuits of a program.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace bellhop {

using Seed = std::array<std::uint32_t, 4>;

// Gives the n-th run of each circuit a seed of its own, which depends on nothing
// else: neither on the order in which different circuits run, nor on the thread.
// Any thread may call.
class RandomStream {
 public:
  // Without a seed, one that the system makes up.
  explicit RandomStream(std::optional<std::uint64_t> seed);

  // Takes a seed in place of one that the system made up; the first counts.
  void seed_unless_given(std::uint64_t seed);

  Seed next(std::int64_t circuit);

 private:
  std::mutex mutex_;
  bool given_;
  std::uint64_t seed_;
  std::unordered_map<std::int64_t, std::uint64_t> runs_;
};

}  // namespace bellhop
