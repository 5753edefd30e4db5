// handlers/branches.cc: a walk through the outcomes of mid-circuit measurements.
#include "bellhop/branches.h"

#include <string>

#include "bellhop/device_pool.h"

namespace bellhop {
namespace {

// Below this a probability is rounding of zero, and a path adds nothing to a result
// of double precision.
constexpr double kNever = 1e-15;

constexpr std::size_t kMostRuns = std::size_t{1} << 20;

}  // namespace

bool Branches::next_outcome(double probability_of_one, std::mt19937& generator) {
  const double p[] = {1 - probability_of_one, probability_of_one};
  if (depth_ == path_.size()) {
    const bool happens[] = {weight_ * p[0] >= kNever, weight_ * p[1] >= kNever};
    if (happens[0] || happens[1]) {
      path_.push_back({!happens[0], !(happens[0] && happens[1])});
    } else {
      // As in a real run, so that a loop until success ends here too.
      path_.push_back({std::uniform_real_distribution<>()(generator) < p[1], true});
    }
  }
  const bool outcome = path_[depth_++].outcome;
  weight_ *= p[outcome];
  return outcome;
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
  weight_ = 1;
  while (!path_.empty() && path_.back().is_last) path_.pop_back();
  if (path_.empty()) return false;
  path_.back() = {!path_.back().outcome, true};
  return true;
}

}  // namespace bellhop
