// circuit/outcome_enumeration.h: the outcomes of a circuit's mid-circuit measurements,
// one combination after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bellhop {

// Which combinations of outcomes a circuit runs through, as in the contract.
enum class Tree : std::uint8_t { kNone, kThatHappen, kAll, kDrawn };

// A walk through the tree whose nodes are measurements and whose edges are outcomes,
// depth first: one run of the circuit is one path to a leaf. How many measurements
// there are may depend on outcomes.
//
// Outcomes that do not happen are not followed, as they add nothing to a result: a
// probability of zero is its smallest value, so that it adds nothing to a first
// derivative either. To a second derivative it does; so there the walk is through all.
//
// A drawn tree is that of a circuit with shots: at each measurement those that came
// there draw an outcome, each by itself, and outcomes that none drew are not followed.
// So shots with the same outcomes share a run.
class OutcomeEnumeration {
 public:
  OutcomeEnumeration() = default;
  OutcomeEnumeration(Tree tree, bool is_differentiated, std::size_t shots);

  bool is_tree() const { return tree_ != Tree::kNone; }

  // Whether the state is normalized after each outcome. Else its squared norm is the
  // probability of the outcomes so far.
  bool normalizes() const { return tree_ == Tree::kNone || is_drawn(); }

  bool is_drawn() const { return tree_ == Tree::kDrawn; }

  // Of a drawn tree, the shots that have drawn the outcomes of this run, in order.
  const std::vector<std::uint32_t>& shots() const { return shots_; }

  // The outcome of the next measurement of this run, given the probabilities of this
  // run up to there with each.
  bool next_outcome(const std::array<double, 2>& probabilities,
                    std::mt19937& generator);

  // Whether it will look at these probabilities.
  bool is_new() const { return tree_ == Tree::kThatHappen && depth_ == path_.size(); }

  // A postselection holds with this probability: what is unlikely from here on is
  // unlikely beside it.
  void postselected(double probability) { all_postselected(scale_ * probability); }

  // The same of all postselections of this run so far.
  void all_postselected(double probability);

  // Ends the run. Returns whether there is another one; throws CircuitError where
  // there are too many.
  bool advance();

 private:
  struct Node {
    bool outcome;
    bool is_last;  // the other outcome was taken, or does not happen
    std::vector<std::uint32_t> others;  // the shots that drew the other outcome
  };
  Node draw_node(double one, std::mt19937& generator);

  Tree tree_ = Tree::kNone;
  double never_ = 0;  // a probability below this does not happen
  double scale_ = 1;  // how likely the run's postselections were
  std::vector<Node> path_;
  std::vector<std::uint32_t> shots_;
  std::size_t depth_ = 0;
  std::size_t runs_ = 0;
};

}  // namespace bellhop
