// circuit/outcome_enumeration.cc: enumerate the outcomes of a circuit's mid-circuit
// measurements.
#include "circuit/outcome_enumeration.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "devices/error.h"

namespace bellhop {
namespace {

// Outcomes below this probability do not change a double-precision result.
constexpr double kNever = 1e-15;

// The threshold for derivatives, which may be as large as the square root of the
// probability.
constexpr double kNeverInDerivative = 1e-24;

constexpr std::size_t kMostRuns = std::size_t{1} << 20;

// With kAllWithImpossible, a loop that repeats until an outcome occurs would never end,
// so the number of measurements is limited.
constexpr std::size_t kMostOfAll = 20;

}  // namespace

OutcomeEnumeration::OutcomeEnumeration(Outcomes outcomes, bool is_differentiated,
                                       std::size_t shots)
    : outcomes_(outcomes), never_(is_differentiated ? kNeverInDerivative : kNever) {
  if (!is_drawn()) return;
  shots_.resize(shots);
  std::iota(shots_.begin(), shots_.end(), 0u);
}

// The execution continues with the shots that drew 0, if there are any.
OutcomeEnumeration::Node OutcomeEnumeration::draw_node(double one,
                                                       std::mt19937& generator) {
  std::uniform_real_distribution<> uniform;
  std::vector<std::uint32_t> zeros, ones;
  for (const std::uint32_t shot : shots_) {
    (uniform(generator) < one ? ones : zeros).push_back(shot);
  }
  const bool outcome = zeros.empty();
  shots_ = std::move(outcome ? ones : zeros);
  const bool is_last = outcome || ones.empty();
  return {outcome, is_last, is_last ? std::vector<std::uint32_t>() : std::move(ones)};
}

bool OutcomeEnumeration::next_outcome(const std::array<double, 2>& probabilities,
                                      std::mt19937& generator) {
  const double sum = probabilities[0] + probabilities[1];
  // For a zero state, either outcome will do.
  const double one = sum > 0 ? probabilities[1] / sum : 0.5;
  if (depth_ == path_.size() && is_drawn()) {
    path_.push_back(draw_node(one, generator));
  } else if (depth_ == path_.size()) {
    const bool all = outcomes_ == Outcomes::kAllWithImpossible;
    if (all && depth_ == kMostOfAll) {
      throw CircuitError(
          "second derivatives enumerate all outcomes: expected at most " +
          std::to_string(kMostOfAll) +
          " mid-circuit measurements, got more. Use fewer mid-circuit measurements.");
    }
    const bool happens[] = {all || probabilities[0] >= never_ * scale_,
                            all || probabilities[1] >= never_ * scale_};
    if (happens[0] || happens[1]) {
      path_.push_back({!happens[0], !(happens[0] && happens[1]), {}});
    } else {
      // Both outcomes are impossible. Draws one, so that a loop that repeats until an
      // outcome occurs ends.
      const bool outcome = std::uniform_real_distribution<>()(generator) < one;
      path_.push_back({outcome, true, {}});
    }
  }
  return path_[depth_++].outcome;
}

void OutcomeEnumeration::all_postselected(double probability) {
  // Not zero: no probability is below zero, so all outcomes would be visited.
  scale_ = std::max(probability, std::numeric_limits<double>::min());
}

bool OutcomeEnumeration::advance() {
  // With kSharedRuns there are at most as many executions as shots.
  if (++runs_ > kMostRuns && !is_drawn()) {
    throw CircuitError(
        "an exact result enumerates the outcomes of mid-circuit measurements: expected "
        "at most " +
        std::to_string(kMostRuns) +
        " combinations, got more. Use shots, or mcm_method='single-branch-statistics' "
        "for one random execution.");
  }
  depth_ = 0;
  scale_ = 1;
  while (!path_.empty() && path_.back().is_last) path_.pop_back();
  if (path_.empty()) return false;
  Node& last = path_.back();
  shots_ = std::move(last.others);
  last = {!last.outcome, true, {}};
  return true;
}

}  // namespace bellhop
