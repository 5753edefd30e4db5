// circuit/sampled_executions.h: draw mid-circuit outcomes, conditioned on
// postselections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "executors.h"

namespace bellhop {

// Draws the mid-circuit outcomes of circuit executions, so that the valid executions
// are distributed conditionally on the postselections.
//
// The probabilities of visited measurements are stored as a tree. Each node also stores
// an upper bound of the share of its subtree that survives the postselections in it. An
// outcome is drawn with its probability times the bound behind it. Unvisited subtrees
// have the bound 1; a new postselection invalidates the execution with the probability
// that it fails. This is rejection sampling whose bound is tightened by each rejection:
// the distribution is exact at any time, a postselection fails about once, however
// small its probability is, and impossible postselections are recognised.
class SampledExecutions {
 public:
  SampledExecutions() = default;
  explicit SampledExecutions(Outcomes outcomes);

  // Returns whether executions whose postselections fail are repeated: with kRepeated
  // by the probabilities seen so far, with kRepeatedAnew without them.
  bool redraws() const { return is_repeated(outcomes_); }

  // Draws the outcome of the next measurement, given the probabilities of both
  // outcomes.
  bool draw(const std::array<double, 2>& probabilities, std::mt19937& generator);

  // Handles a postselection that succeeds with this probability. Returns whether it is
  // possible.
  bool postselect(double probability, std::mt19937& generator);

  // Marks this execution as invalid.
  void fail() { counts_ = false; }

  struct End {
    bool counts;
    bool more;  // whether the circuit must be executed again
  };
  // Ends the execution. Throws CircuitError if too many executions in succession were
  // invalid.
  End finish();

 private:
  struct Node {
    std::array<double, 2> weights;
    // Indices of the child nodes, or zero for an unvisited outcome.
    std::array<std::uint32_t, 2> next{};
    // Upper bound of the share of the subtree that survives the postselections.
    double share = 1;
  };
  struct Choice {
    std::uint32_t node;
    bool outcome;
  };

  // Moves to the node of the next measurement, which is added on the first visit.
  // Returns null if nodes are not stored.
  Node* visit(const std::array<double, 2>& weights);
  // Returns the bound of the subtree behind an outcome.
  double survival_share(const Node& node, bool outcome) const;

  Outcomes outcomes_ = Outcomes::kNone;
  std::vector<Node> nodes_;  // the first is the root
  std::vector<Choice> path_;
  bool counts_ = true;
  bool is_new_ = false;  // whether the last visit added its node
  // Whether this execution has left the stored tree.
  bool is_lost_ = false;
  std::size_t failures_ = 0;  // number of invalid executions in succession
};

}  // namespace bellhop
