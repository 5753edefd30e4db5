// states/sampling.cc: samples of states of the engine, and how often they come.
#include "states/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "circuit/binomial.h"
#include "devices/error.h"

namespace bellhop::engine {
namespace {

// A part of a large vector is for one thread: 20 to 200 us.
constexpr std::size_t kAmplitudesOfPart = std::size_t{1} << 15;
constexpr std::size_t kCellsOfPart = std::size_t{1} << 11;

// What one of them takes one thread, roughly.
constexpr double kNanosecondsOfBinomial = 60;
constexpr double kNanosecondsOfSum = 1;

// Number of samples that take about as long as one binomial random number.
constexpr std::size_t kShotsOfBinomial = 4;

// Adds the probabilities of basis states begin to end - 1 to the weights of their
// cells.
template <typename Probability>
void add_to_cells(const Cells& cells, std::size_t begin, std::size_t end,
                  const Probability& probability, double* weights) {
  const auto low = cells.cell_of().of_low_bits();
  for (std::size_t first = begin; first < end; first += low.size()) {
    const std::uint32_t high = cells.cell_of()(first);
    for (std::size_t i = 0; i < low.size(); ++i) {
      weights[low[i] ^ high] += probability(first + i);
    }
  }
}

// Draws by inversion: the first index at which the weights so far exceed a number that
// is drawn. A table says where to begin to look for it, so that one or two steps are
// left on average.
class Inversion {
 public:
  Inversion(std::vector<double> weights, std::size_t shots)
      : ends_(std::move(weights)), begins_(std::min(ends_.size(), shots)) {
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] > 0) last_ = static_cast<std::uint32_t>(i);
      ends_[i] = total_ += ends_[i];
    }
    const auto parts = static_cast<double>(begins_.size());
    std::uint32_t first = 0;
    for (std::size_t part = 0; part < begins_.size(); ++part) {
      const double below = total_ * static_cast<double>(part) / parts;
      while (first < last_ && ends_[first] <= below) ++first;
      begins_[part] = first;
    }
  }

  // Draws an index for each of the shots first to last - 1 of a list.
  void draw(const ShotNumbers& shots, std::size_t first, std::size_t last,
            const RandomKey& key, const States& states,
            std::span<std::uint32_t> found) const {
    const Parts parts(last - first, kShotsOfPart);
    for_each_part(parts, states, kNanosecondsOfShot, [&](std::size_t part) {
      std::size_t i = first + parts.begin(part);
      const std::size_t end = first + parts.end(part);
      while (i < end) {
        const std::size_t shot = shots[i];
        // The numbers of two shots come together.
        if (shot % 2 == 0 && i + 1 < end && shots[i + 1] == shot + 1) {
          const auto [number, next] = key.numbers_of_shots(shot / 2);
          found[i] = find(number);
          found[i + 1] = find(next);
          i += 2;
        } else {
          found[i++] = find(key.number_of_shot(shot));
        }
      }
    });
  }

 private:
  std::uint32_t find(double number) const {
    const auto part =
        static_cast<std::size_t>(number * static_cast<double>(begins_.size()));
    // Rounded, a number may lie just below its part.
    std::uint32_t index = begins_[std::min(part, begins_.size() - 1)];
    const double end = number * total_;
    while (index > 0 && ends_[index - 1] > end) --index;
    while (index < last_ && ends_[index] <= end) ++index;
    return index;
  }

  std::vector<double> ends_;
  std::vector<std::uint32_t> begins_;
  double total_ = 0;
  std::uint32_t last_ = 0;  // that has a weight
};

// Draws multinomial counts of shots for each weight: for one index after another, a
// binomial number of the remaining shots, whose probability is the weight's share in
// the remaining weights. Calls take(index, count) for each count that is not zero.
template <typename Take>
void draw_multinomial(std::span<const double> weights, std::uint64_t shots,
                      NumberSequence numbers, const Take& take) {
  std::vector<double> left(weights.size());
  // Added from the end, so that the share of the last index is one.
  double sum = 0;
  for (std::size_t i = weights.size(); i-- > 0;) left[i] = sum += weights[i];
  for (std::size_t i = 0; i < weights.size() && shots > 0; ++i) {
    const std::uint64_t count = draw_binomial(shots, weights[i] / left[i], numbers);
    if (count > 0) take(i, count);
    shots -= count;
  }
}

// Draws the counts of an interval in parts, and first how many shots each part has.
void draw_interval(std::span<const double> weights, std::uint64_t shots,
                   std::uint32_t interval, const RandomKey& key, const States& states,
                   std::vector<CellCount>& found) {
  const Parts parts(weights.size(), kCellsOfPart);
  const auto sequence = [&](std::size_t part) {
    return NumberSequence(key, interval * (Parts::kMost + 1) + part);
  };
  const auto draw_part = [&](std::size_t part, std::uint64_t count,
                             std::vector<CellCount>& into) {
    const std::size_t begin = parts.begin(part);
    const auto take = [&](std::size_t i, std::uint64_t of_cell) {
      into.push_back({static_cast<std::uint32_t>(begin + i), interval, of_cell});
    };
    draw_multinomial(weights.subspan(begin, parts.end(part) - begin), count,
                     sequence(part + 1), take);
  };
  if (parts.count() == 1) return draw_part(0, shots, found);
  std::vector<double> sums(parts.count());
  for (std::size_t part = 0; part < sums.size(); ++part) {
    const auto first = weights.begin();
    sums[part] =
        std::accumulate(first + static_cast<std::ptrdiff_t>(parts.begin(part)),
                        first + static_cast<std::ptrdiff_t>(parts.end(part)), 0.0);
  }
  std::vector<std::uint64_t> counts(parts.count());
  draw_multinomial(
      sums, shots, sequence(0),
      [&](std::size_t part, std::uint64_t count) { counts[part] = count; });
  std::vector<std::vector<CellCount>> of_parts(parts.count());
  for_each_part(parts, states, kNanosecondsOfBinomial, [&](std::size_t part) {
    draw_part(part, counts[part], of_parts[part]);
  });
  for (const auto& part : of_parts) found.insert(found.end(), part.begin(), part.end());
}

}  // namespace

std::vector<double> weigh_cells(const States& states, const Amplitudes& ket,
                                std::size_t lane, const Cells& cells) {
  const std::size_t size = size_of(states);
  const std::size_t lanes = states.lanes();
  std::vector<double> weights(cells.size());
  // Together, the sums of all parts are at most as large as the state.
  const std::size_t of_part = cells.are_basis_states()
                                  ? kAmplitudesOfPart
                                  : std::max(kAmplitudesOfPart, cells.size());
  const Parts parts(size, of_part);
  std::vector<double> totals(parts.count());
  const auto add_up = [&](auto numbers) {
    const auto probability = [&](std::size_t i) {
      const double real = numbers.real[i * lanes + lane];
      const double imag = numbers.imag[i * lanes + lane];
      return real * real + imag * imag;
    };
    if (cells.are_basis_states()) {
      return for_each_part(parts, states, kNanosecondsOfSum, [&](std::size_t part) {
        for (std::size_t i = parts.begin(part); i < parts.end(part); ++i) {
          totals[part] += weights[i] = probability(i);
        }
      });
    }
    std::vector<double> more((parts.count() - 1) * cells.size());
    for_each_part(parts, states, kNanosecondsOfSum, [&](std::size_t part) {
      double* const into =
          part == 0 ? weights.data() : more.data() + (part - 1) * cells.size();
      add_to_cells(cells, parts.begin(part), parts.end(part), probability, into);
    });
    for (std::size_t i = 0; i < more.size(); ++i) weights[i % cells.size()] += more[i];
    totals[0] = std::accumulate(weights.begin(), weights.end(), 0.0);
  };
  with_numbers(states.layout(), add_up, ket);
  if (std::isnan(std::accumulate(totals.begin(), totals.end(), 0.0))) {
    throw CircuitError(kNoProbabilities);
  }
  return weights;
}

std::vector<std::uint32_t> draw_indices(std::vector<double> weights,
                                        const ShotNumbers& shots, const RandomKey& key,
                                        const States& states) {
  std::vector<std::uint32_t> found(shots.size());
  const Inversion inversion(std::move(weights), shots.size());
  inversion.draw(shots, 0, shots.size(), key, states, found);
  return found;
}

std::vector<CellCount> draw_counts(std::span<const double> weights,
                                   const ShotNumbers& shots,
                                   std::span<const std::size_t> ends,
                                   const RandomKey& key, const States& states) {
  std::vector<CellCount> found;
  // Calls visit(interval, first, last) for the intervals of many shots, or of few.
  const auto for_each_interval = [&](bool has_many, const auto& visit) {
    std::size_t first = 0;
    for (std::size_t interval = 0; interval < ends.size(); ++interval) {
      const std::size_t last = shots.count_below(ends[interval]);
      const bool is_large = last - first >= kShotsOfBinomial * weights.size();
      if (is_large == has_many)
        visit(static_cast<std::uint32_t>(interval), first, last);
      first = last;
    }
  };
  std::size_t drawn_alone = 0;
  for_each_interval(false, [&](std::uint32_t, std::size_t first, std::size_t last) {
    drawn_alone += last - first;
  });
  if (drawn_alone > 0) {
    const Inversion inversion({weights.begin(), weights.end()}, drawn_alone);
    std::vector<std::uint32_t> cells(shots.size());
    for_each_interval(false,
                      [&](std::uint32_t interval, std::size_t first, std::size_t last) {
                        inversion.draw(shots, first, last, key, states, cells);
                        for (std::size_t i = first; i < last; ++i)
                          found.push_back({cells[i], interval, 1});
                      });
  }
  for_each_interval(
      true, [&](std::uint32_t interval, std::size_t first, std::size_t last) {
        draw_interval(weights, last - first, interval, key, states, found);
      });
  return found;
}

}  // namespace bellhop::engine
