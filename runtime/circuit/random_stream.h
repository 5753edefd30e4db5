// circuit/random_stream.h: seeds for the circuits of a program.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace bellhop {

using Seed = std::array<std::uint32_t, 4>;

// Gives the n-th run of each circuit a seed of its own, which depends on nothing
// else: neither on the order in which different circuits run, nor on the thread. With a
// seed of its own it counts in each call of the program from the beginning, else on
// over calls. Any thread may call.
class RandomStream {
 public:
  // Without a seed, one that the system makes up.
  explicit RandomStream(std::optional<std::uint64_t> seed);
  ~RandomStream();

  // Takes a seed in place of one that the system made up; the first counts. Calls stay
  // different.
  void seed_unless_given(std::uint64_t seed);

  // For a circuit of the program, in one execution of it.
  Seed next(std::int64_t circuit, std::int64_t run_id);

 private:
  using Counts = std::unordered_map<std::int64_t, std::uint64_t>;  // by circuit
  Counts& find_or_add_counts(std::int64_t run_id);

  std::mutex mutex_;
  bool given_;
  const bool repeats_;
  std::uint64_t seed_;
  std::unordered_map<std::int64_t, Counts> counts_;  // by execution
  std::deque<std::int64_t> executions_;              // the oldest first
};

}  // namespace bellhop
