// circuit/branches.cc: a walk through the outcomes of mid-circuit measurements.
#include "circuit/branches.h"

#include <algorithm>
#include <limits>
#include <string>

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

Branches::Branches(Tree tree, bool is_differentiated)
    : tree_(tree), never_(is_differentiated ? kNeverInDerivative : kNever) {}

bool Branches::next_outcome(const std::array<double, 2>& probabilities,
                            std::mt19937& generator) {
  if (depth_ == path_.size()) {
    const bool all = tree_ == Tree::kAll;
    if (all && depth_ == kMostOfAll) {
      throw CircuitError("a second derivative goes through all outcomes of at most " +
                         std::to_string(kMostOfAll) +
                         " measurements, and there are more on the way.");
    }
    const bool happens[] = {all || probabilities[0] >= never_ * scale_,
                            all || probabilities[1] >= never_ * scale_};
    if (happens[0] || happens[1]) {
      path_.push_back({!happens[0], !(happens[0] && happens[1])});
    } else {
      // As in a real run, so that a loop until success ends here too. Of a state that
      // is not there, either will do.
      const double sum = probabilities[0] + probabilities[1];
      const double one = sum > 0 ? probabilities[1] / sum : 0.5;
      path_.push_back({std::uniform_real_distribution<>()(generator) < one, true});
    }
  }
  return path_[depth_++].outcome;
}

void Branches::all_postselected(double probability) {
  // Not zero, which nothing is less likely than.
  scale_ = std::max(probability, std::numeric_limits<double>::min());
}

bool Branches::advance() {
  if (++runs_ > kMostRuns) {
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
  path_.back() = {!path_.back().outcome, true};
  return true;
}

}  // namespace bellhop
