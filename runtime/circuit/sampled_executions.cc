// circuit/sampled_executions.cc: draw mid-circuit outcomes, conditioned on
// postselections.
#include "circuit/sampled_executions.h"

#include <cmath>
#include <string>

#include "circuit/min_probability.h"
#include "devices/error.h"

namespace bellhop {
namespace {

constexpr std::size_t kMostNodes = std::size_t{1} << 18;
constexpr std::size_t kMostFailures = std::size_t{1} << 20;

bool draw_event(double probability, std::mt19937& generator) {
  return std::uniform_real_distribution<>()(generator) < probability;
}

}  // namespace

SampledExecutions::SampledExecutions(Outcomes outcomes) : outcomes_(outcomes) {}

SampledExecutions::Node* SampledExecutions::visit(
    const std::array<double, 2>& weights) {
  is_new_ = false;
  if (is_lost_) return nullptr;
  std::uint32_t place =
      path_.empty() ? 0 : nodes_[path_.back().node].next[path_.back().outcome];
  if (path_.empty() ? nodes_.empty() : place == 0) {
    if (outcomes_ == Outcomes::kRepeatedAnew || nodes_.size() == kMostNodes) {
      is_lost_ = true;
      return nullptr;
    }
    place = static_cast<std::uint32_t>(nodes_.size());
    if (!path_.empty()) nodes_[path_.back().node].next[path_.back().outcome] = place;
    nodes_.push_back({weights});
    is_new_ = true;
  }
  path_.push_back({place, false});
  return &nodes_[place];
}

double SampledExecutions::survival_share(const Node& node, bool outcome) const {
  const std::uint32_t next = node.next[outcome];
  return next == 0 ? 1.0 : nodes_[next].share;
}

bool SampledExecutions::draw(const std::array<double, 2>& probabilities,
                             std::mt19937& generator) {
  std::array<double, 2> weights{};
  if (std::isnan(probabilities[0] + probabilities[1])) {
    throw CircuitError(kNoProbabilities);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (probabilities[i] >= kMinProbability) weights[i] = probabilities[i];
  }
  if (const Node* node = visit(weights)) {
    for (const bool outcome : {false, true}) {
      weights[outcome] = node->weights[outcome] * survival_share(*node, outcome);
    }
    // No continuation survives the postselections, so every outcome makes the execution
    // invalid.
    if (weights[0] + weights[1] == 0) weights = node->weights;
  }
  const bool outcome = draw_event(weights[1] / (weights[0] + weights[1]), generator);
  if (!is_lost_) path_.back().outcome = outcome;
  return outcome;
}

bool SampledExecutions::postselect(double probability, std::mt19937& generator) {
  const bool can = probability >= kMinProbability;
  const Node* node = visit({0.0, can ? probability : 0.0});
  if (node != nullptr) path_.back().outcome = true;
  const bool is_known = node != nullptr && !is_new_;
  if (!can || (!is_known && !draw_event(probability, generator))) fail();
  // The state after an impossible postselection is meaningless, so it is not stored.
  if (!can) is_lost_ = true;
  return can;
}

SampledExecutions::End SampledExecutions::finish() {
  for (auto choice = path_.rbegin(); choice != path_.rend(); ++choice) {
    Node& node = nodes_[choice->node];
    node.share = node.weights[0] * survival_share(node, false) +
                 node.weights[1] * survival_share(node, true);
  }
  path_.clear();
  is_lost_ = false;
  const bool can_count = nodes_.empty() || nodes_.front().share >= kMinProbability;
  const bool counts = counts_ && can_count;
  counts_ = true;
  if (counts || !redraws() || !can_count) {
    failures_ = 0;
    return {counts, false};
  }
  if (++failures_ == kMostFailures) {
    throw CircuitError("the postselections of a shot failed in " +
                       std::to_string(kMostFailures) +
                       " executions in succession. Use postselect_mode='hw-like', "
                       "which drops such shots.");
  }
  return {false, true};
}

}  // namespace bellhop
