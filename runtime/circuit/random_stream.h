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

// Gives the n-th execution of each circuit its own seed, which depends neither on the
// order of different circuits nor on the thread. With a given seed, n starts at zero in
// each call of the program; without one, n continues over calls. May be used from any
// thread.
class RandomStream {
 public:
  // Without a seed, takes one from the system's entropy.
  explicit RandomStream(std::optional<std::uint64_t> seed);
  ~RandomStream();

  // Replaces a seed from the system's entropy; does nothing if a seed was given. n
  // still continues over calls.
  void seed_unless_given(std::uint64_t seed);

  // Returns the next seed of a circuit in one execution of the program. `circuit` is
  // the circuit's number in the program, and `run_id` XLA's identifier of the
  // execution.
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
