// circuit/outcome_enumeration.h: enumerate the outcomes of a circuit's mid-circuit
// measurements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "executors.h"

namespace bellhop {

// Visits the combinations of outcomes depth first. The outcomes form a tree whose nodes
// are measurements and whose edges are outcomes; each execution of the circuit is one
// path to a leaf. The number of measurements may depend on outcomes.
//
// With Outcomes::kAll, outcomes of zero probability are not visited, since they do not
// contribute to a result. They do not contribute to a first derivative either, because
// zero is the minimum of a probability. They may contribute to a second derivative,
// which uses kAllWithImpossible.
//
// With kSharedRuns, at each measurement each shot that has reached it draws an outcome.
// Outcomes that no shot drew are not visited. So shots with the same outcomes share an
// execution. With other treatments, nothing is enumerated.
class OutcomeEnumeration {
 public:
  OutcomeEnumeration() = default;
  // `is_differentiated`: whether derivatives of the results are taken, which lowers the
  // probability below which outcomes are not visited. `shots` is used by kSharedRuns.
  OutcomeEnumeration(Outcomes outcomes, bool is_differentiated, std::size_t shots);

  // Returns whether results are sums over the executions with different outcomes.
  bool is_tree() const { return is_summed(outcomes_); }

  // Returns whether the state is normalized after each outcome. Otherwise its squared
  // norm is the probability of the outcomes so far.
  bool normalizes() const { return !is_tree() || is_drawn(); }

  // Returns whether the shots draw the outcomes that are visited.
  bool is_drawn() const { return outcomes_ == Outcomes::kSharedRuns; }

  // With kSharedRuns: the shots that drew the outcomes of this execution, in ascending
  // order.
  const std::vector<std::uint32_t>& shots() const { return shots_; }

  // Chooses the outcome of the next measurement of this execution. probabilities[i] is
  // the squared norm of the state's part with outcome i: its joint probability with the
  // outcomes so far if the state is not normalized.
  bool next_outcome(const std::array<double, 2>& probabilities,
                    std::mt19937& generator);

  // Returns whether next_outcome() will read the probabilities with Outcomes::kAll. If
  // not, they need not be computed.
  bool is_new() const { return outcomes_ == Outcomes::kAll && depth_ == path_.size(); }

  // Records a postselection of this probability: the threshold for impossible outcomes
  // is multiplied by it.
  void postselected(double probability) { all_postselected(scale_ * probability); }

  // Records the joint probability of all postselections of this execution so far.
  void all_postselected(double probability);

  // Ends an execution. Returns whether there is another combination to execute; throws
  // CircuitError if there are too many.
  bool advance();

 private:
  struct Node {
    bool outcome;
    bool is_last;  // whether the other outcome was visited, or is not to be visited
    std::vector<std::uint32_t> others;  // the shots that drew the other outcome
  };
  // Lets each remaining shot draw an outcome, which is 1 with probability `one`.
  Node draw_node(double one, std::mt19937& generator);

  Outcomes outcomes_ = Outcomes::kNone;
  double never_ = 0;  // outcomes below this probability are not visited
  double scale_ = 1;  // joint probability of this execution's postselections
  std::vector<Node> path_;
  std::vector<std::uint32_t> shots_;
  std::size_t depth_ = 0;
  std::size_t runs_ = 0;
};

}  // namespace bellhop
