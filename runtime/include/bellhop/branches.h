// bellhop/branches.h: the outcomes of a circuit's mid-circuit measurements, one
// combination after another.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace bellhop {

// A walk through the tree whose nodes are measurements and whose edges are outcomes,
// depth first: one run of the circuit is one path to a leaf. Outcomes that do not
// happen are not followed. How many measurements there are may depend on outcomes.
class Branches {
 public:
  // The outcome of the next measurement of this run, given the probability of 1.
  bool next_outcome(double probability_of_one, std::mt19937& generator);

  // This run goes on only as far as a condition of this probability holds.
  void condition(double probability) { weight_ *= probability; }

  // The probability of this run.
  double weight() const { return weight_; }

  // Ends the run. Returns whether there is another one; throws CircuitError where
  // there are too many.
  bool advance();

 private:
  struct Node {
    bool outcome;
    bool is_last;  // the other outcome was taken, or does not happen
  };
  std::vector<Node> path_;
  std::size_t depth_ = 0;
  double weight_ = 1;
  std::size_t runs_ = 0;
};

}  // namespace bellhop
