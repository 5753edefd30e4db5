// states/sampling.h: samples of states of the engine, and how often they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/random_numbers.h"
#include "interpreter/signals.h"
#include "measurements/samples.h"
#include "states/cells.h"
#include "states/states.h"
#include "threads/thread_team.h"

namespace bellhop::engine {

// Many shots in parts of so many, each for one thread.
constexpr std::size_t kShotsOfPart = std::size_t{1} << 14;

// Calls work(part) for each part, on several threads. Throws Interrupted.
template <typename Work>
void for_each_part(std::size_t parts, const Helpers& helpers, const Work& work) {
  for_each_row(parts, helpers, [&]() -> RowWorker {
    return [&work](std::size_t part) {
      check_signals();
      work(part);
    };
  });
}

// How often a cell came among the shots of an interval.
struct CellCount {
  std::uint32_t cell;
  std::uint32_t interval;
  std::uint64_t count;
};

// Returns the sum of the probabilities of each cell's basis states, for the state in a
// lane, which need not be normalized. Throws CircuitError where there is a NaN.
std::vector<double> weigh_cells(const States& states, const Amplitudes& ket,
                                std::size_t lane, const Cells& cells);

// Draws an index for each shot, with the probabilities that `weights` are in proportion
// to. What a shot draws depends on its number alone.
std::vector<std::uint32_t> draw_indices(std::span<const double> weights,
                                        const ShotNumbers& shots, const RandomKey& key,
                                        const Helpers& helpers);

// Draws how often each cell comes in each interval of some shots, with the
// probabilities that `weights` are in proportion to. An interval of many more shots
// than cells costs what the cells do, by binomial distributions; in others each shot is
// drawn.
//
// Args:
//   ends: the number behind the last shot of each interval, ascending.
std::vector<CellCount> draw_counts(std::span<const double> weights,
                                   const ShotNumbers& shots,
                                   std::span<const std::size_t> ends,
                                   const RandomKey& key, const Helpers& helpers);

}  // namespace bellhop::engine
