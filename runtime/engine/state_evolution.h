// engine/state_evolution.h: apply the steps of a circuit to a state, forward and
// backward.
//
// Adjoint derivatives of <Z> after RX(p):  begin(), forward(step, {p}), ket = RX(p)|0>;
// bra = Z ket;  backward(step, {p}, gradients) adds 2 Re <bra|dRX/dp|0>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "circuit/session.h"
#include "compiled_gates/plan.h"
#include "states/states.h"
#include "states/tiles.h"

namespace bellhop::engine {

// Where derivatives are added, see Sweeps::backward. Derivatives with respect to
// dynamic-count parameters, which only a single circuit has, are added to a table of
// their own, unless it is null.
struct Gradients {
  std::span<const Amplitudes> bras;
  double* jacobian;
  std::size_t columns;
  std::size_t row_size;
  std::size_t rows;
  double* by_dynamic_count = nullptr;
  std::size_t dynamic_count_columns = 0;
};

// A direction in the space of all static-count parameters, for the row in the first
// lane; the direction of the next row is `stride` further. Empty for no direction.
struct Direction {
  std::span<const double> numbers;
  std::size_t stride = 0;
};

// Applies the steps of a circuit to a state, or to one state in each lane. One thread
// uses it at a time.
class Walk {
 public:
  // The parameters of a step for the row in the first lane, the distance to the
  // parameters of the next row, and the dynamic wires, which all rows share.
  struct Inputs {
    const double* params;
    std::size_t stride;
    std::span<const std::int32_t> wires;
    std::span<const float> singles = {};  // in place of params, see Step
    // Whether all stay valid until the circuit has ended or forget_steps is called.
    bool are_kept = false;
  };

  // If `can_go_back`, stores the amplitudes that projections remove, so that `backward`
  // can restore them.
  Walk(const Layout& layout, bool can_go_back)
      : states_(layout), can_go_back_(can_go_back) {}
  // Changes `can_go_back` for the steps that follow.
  void let_go_back(bool can_go_back) { can_go_back_ = can_go_back; }

  // The states. Sets the zero state first if no step has been applied since `begin`.
  States& states() {
    if (is_unset_ || !written_.are_in_memory()) ket();
    return states_;
  }
  // Return the state that goes through the circuit, state vector 0; and this state with
  // its tangent along the direction, state vector 1, if there is a direction.
  Amplitudes ket();
  Ket ket_with_tangent();

  // Starts with the zero state. The direction must stay valid until the next `begin`.
  void begin(const Direction& direction = {});
  // Applies a step with its inputs.
  void forward(const Step& step, const Inputs& inputs);
  // Forgets the steps that were applied: their memory may be used for others.
  void forget_steps() {
    states();
    step_ = nullptr;
  }
  // Undoes the last step on the ket and the bras, and adds the derivatives with respect
  // to its parameters.
  void backward(const Step& step, const Inputs& inputs, const Gradients& gradients);

 private:
  // Returns the iterations of part `number` of a step in the form that the kernels
  // take, and makes the part's plan the current one. `column` is the Jacobian's column
  // of the step's first parameter, or negative.
  Segment segment_of(const Step& step, std::size_t number, const Inputs& inputs,
                     std::int64_t column);
  // Returns iteration `number` of a segment in groups.
  TiledProgram iteration(const Segment& segment, std::size_t number) const;
  // Returns whether the current plan is applied tile by tile.
  bool is_tiled() const;
  // Returns the state and its tangent for tiles: only amplitudes of `written_` are
  // valid in the state.
  Ket partly_written_ket();
  // Announces the work of applying a segment tile by tile, `passes` times, so that
  // helper threads come in time.
  void announce_work(const Segment& segment, std::size_t passes) const;

  States states_;
  // The step whose matrices are in the scratch memory.
  const Step* step_ = nullptr;
  // The current plan. It is kept until the next one exists, so that a new plan cannot
  // get its address and be mistaken for it.
  std::shared_ptr<const Plan> plan_;
  Program program_{};
  bool can_go_back_;
  Direction direction_;
  // Replaces the parameters of the current step; null if the step has its parameters.
  const float* singles_ = nullptr;
  bool has_kept_parameters_ = false;  // of the current step, see Inputs
  std::vector<double> widened_;
  std::vector<std::byte> removed_;
  // Whether the state is |0...0> and its memory was not written yet.
  bool is_unset_ = false;
  // Which amplitudes were written, unless is_unset_; all others are 0.
  WrittenAmplitudes written_;
};

}  // namespace bellhop::engine
