// circuit/sampled_executions.h: runs of a circuit whose outcomes are drawn, and which
// of them count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bellhop {

// What becomes of a run whose postselection fails, as in the contract.
enum class Redraw : std::uint8_t { kNever, kRemembering, kAnew };

// Draws runs of which those that count are distributed as the postselections demand.
//
// What runs came by is kept as a tree: at each measurement its probabilities, and what
// share of all that follows is known to survive the postselections there. An outcome is
// drawn by its probability times the share behind it. What no run came by yet is taken
// to survive as a whole, and a new postselection stops the run from counting with the
// probability that it fails: rejection sampling with a bound that each rejection
// lowers. So the distribution is exact whatever is known, a postselection
// fails once and not as often as it is unlikely, and what cannot be is found out.
class SampledExecutions {
 public:
  SampledExecutions() = default;
  explicit SampledExecutions(Redraw redraw);

  bool redraws() const { return redraw_ != Redraw::kNever; }

  // The outcome of the next measurement, given the probabilities of both.
  bool draw(const std::array<double, 2>& probabilities, std::mt19937& generator);

  // Takes a postselection that holds with this probability. Returns whether it can.
  bool postselect(double probability, std::mt19937& generator);

  // This run does not count.
  void fail() { counts_ = false; }

  struct End {
    bool counts;
    bool more;  // run again
  };
  // Ends the run; throws CircuitError where too many did not count.
  End finish();

 private:
  struct Node {
    std::array<double, 2> weights;
    std::array<std::uint32_t, 2> next{};  // zero: no run went there
    double share = 1;
  };
  struct Choice {
    std::uint32_t node;
    bool outcome;
  };

  // Goes to the node of the next measurement, which a first visit makes. Null where
  // nothing is kept.
  Node* visit(const std::array<double, 2>& weights);
  double survival_share(const Node& node, bool outcome) const;

  Redraw redraw_ = Redraw::kNever;
  std::vector<Node> nodes_;  // the first is the root
  std::vector<Choice> path_;
  bool counts_ = true;
  bool is_new_ = false;  // the node of the last visit
  bool is_lost_ = false;
  std::size_t failures_ = 0;  // one after another
};

}  // namespace bellhop
