// circuit/outcome_enumeration.cc: a walk through the outcomes of mid-circuit
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

// A path of this probability adds nothing to a result of double precision.
constexpr double kNever = 1e-15;

// A derivative may be as large as the square root of the probability.
constexpr double kNeverInDerivative = 1e-24;

constexpr std::size_t kMostRuns = std::size_t{1} << 20;

// Where all outcomes are followed, a loop until success would never end.
constexpr std::size_t kMostOfAll = 20;

}  // namespace

OutcomeEnumeration::OutcomeEnumeration(Tree tree, bool is_differentiated,
                                       std::size_t shots)
    : tree_(tree), never_(is_differentiated ? kNeverInDerivative : kNever) {
  if (!is_drawn()) return;
  shots_.resize(shots);
  std::iota(shots_.begin(), shots_.end(), 0u);
}

// Each shot draws an outcome, which is one with some probability; the run goes on with
// those that drew zero, if there are some.
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
  // Of a state that is not there, either will do.
  const double one = sum > 0 ? probabilities[1] / sum : 0.5;
  if (depth_ == path_.size() && is_drawn()) {
    path_.push_back(draw_node(one, generator));
  } else if (depth_ == path_.size()) {
    const bool all = tree_ == Tree::kAll;
    if (all && depth_ == kMostOfAll) {
      throw CircuitError("a second derivative goes through all outcomes of at most " +
                         std::to_string(kMostOfAll) +
                         " measurements, and there are more on the way.");
    }
    const bool happens[] = {all || probabilities[0] >= never_ * scale_,
                            all || probabilities[1] >= never_ * scale_};
    if (happens[0] || happens[1]) {
      path_.push_back({!happens[0], !(happens[0] && happens[1]), {}});
    } else {
      // As in a real run, so that a loop until success ends here too.
      const bool outcome = std::uniform_real_distribution<>()(generator) < one;
      path_.push_back({outcome, true, {}});
    }
  }
  return path_[depth_++].outcome;
}

void OutcomeEnumeration::all_postselected(double probability) {
  // Not zero, which nothing is less likely than.
  scale_ = std::max(probability, std::numeric_limits<double>::min());
}

bool OutcomeEnumeration::advance() {
  // A drawn tree has no more runs than shots.
  if (++runs_ > kMostRuns && !is_drawn()) {
    throw CircuitError(
        "The mid-circuit measurements of a circuit have more than " +
        std::to_string(kMostRuns) +
        " combinations of outcomes, which an exact result runs through. Use shots, or "
        "mcm_method='single-branch-statistics' for one random run.");
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
