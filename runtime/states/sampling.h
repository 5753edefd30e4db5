// states/sampling.h: samples of states of the engine, and how often they come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/random_numbers.h"
#include "measurements/samples.h"
#include "states/cells.h"
#include "states/states.h"
#include "threads/thread_team.h"

namespace bellhop::engine {

// The fewest shots that are worth a thread, and how long one shot takes a thread.
constexpr std::size_t kShotsOfPart = std::size_t{1} << 14;
constexpr double kNanosecondsOfShot = 10;

// The indices 0 to `size` - 1, divided into at most kMost parts, each with at least
// `of_part` indices except the last. One thread processes a part.
class Parts {
 public:
  static constexpr std::size_t kMost = 64;

  Parts(std::size_t size, std::size_t of_part)
      : size_(size), of_part_(std::max(of_part, (size + kMost - 1) / kMost)) {}

  std::size_t size() const { return size_; }
  std::size_t count() const { return (size_ + of_part_ - 1) / of_part_; }
  std::size_t begin(std::size_t part) const { return part * of_part_; }
  std::size_t end(std::size_t part) const {
    return std::min(size_, (part + 1) * of_part_);
  }

 private:
  std::size_t size_;
  std::size_t of_part_;
};

// Calls work(part) for each part, on this thread and the helper threads of the states.
// `nanoseconds` is about how long an index takes one thread.
template <typename Work>
void for_each_part(const Parts& parts, const States& states, double nanoseconds,
                   const Work& work) {
  states.expect_work(nanoseconds * static_cast<double>(parts.size()));
  states.share(parts.count(), [&]() -> RowWorker {
    return [&work](std::size_t part) { work(part); };
  });
}

// How often a cell came among the shots of an interval.
struct CellCount {
  std::uint32_t cell;
  std::uint32_t interval;
  std::uint64_t count;
};

// Returns the sum of the probabilities of each cell's basis states, for the state in a
// lane, which need not be normalized. Throws CircuitError if there is a NaN.
std::vector<double> weigh_cells(const States& states, const Amplitudes& ket,
                                std::size_t lane, const Cells& cells);

// Draws an index into `weights` for each shot, with probabilities proportional to the
// weights. The index depends only on `key` and the number of the shot.
std::vector<std::uint32_t> draw_indices(std::vector<double> weights,
                                        const ShotNumbers& shots, const RandomKey& key,
                                        const States& states);

// Draws how often each cell comes in each interval of shots, with probabilities
// proportional to the cells' `weights`. `ends` has, for each interval, the number after
// its last shot, ascending. In an interval with many more shots than cells, the counts
// are drawn from binomial distributions, in a time that grows with the number of cells;
// in other intervals each shot is drawn.
std::vector<CellCount> draw_counts(std::span<const double> weights,
                                   const ShotNumbers& shots,
                                   std::span<const std::size_t> ends,
                                   const RandomKey& key, const States& states);

}  // namespace bellhop::engine
