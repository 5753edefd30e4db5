// engine/state_evolution.h: a state goes through the steps of a circuit, forward and
// back.
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

// Where derivatives are added, see Sweeps::backward. Those by dynamic-count parameters,
// which only a single circuit has, go into a table of their own, unless that is null.
struct Gradients {
  std::span<const Amplitudes> bras;
  double* jacobian;
  std::size_t columns;
  std::size_t row_size;
  std::size_t rows;
  double* by_dynamic_count = nullptr;
  std::size_t dynamic_count_columns = 0;
};

// A direction in the space of all static-count parameters, of the row in the first
// lane; that of the next row is `stride` further. None where it is empty.
struct Direction {
  std::span<const double> numbers;
  std::size_t stride = 0;
};

// A state, or one in each lane, on its way through the steps of a circuit. One thread
// uses it at a time.
class Walk {
 public:
  // The parameters of a step: those of the row in the first lane, and how far behind
  // them those of the next row are. And the wires that were computed, in all of these.
  struct Inputs {
    const double* params;
    std::size_t stride;
    std::span<const std::int32_t> wires;
    std::span<const float> singles = {};  // in place of params, see Step
  };

  // If it can go back, it keeps the amplitudes that projections remove.
  Walk(const Layout& layout, bool can_go_back)
      : states_(layout), can_go_back_(can_go_back) {}
  void let_go_back(bool can_go_back) { can_go_back_ = can_go_back; }

  States& states() { return states_; }
  // The state that goes through the circuit; it is state vector 0. Along a direction
  // its tangent goes with it, which is the next one.
  Amplitudes ket();
  Ket ket_with_tangent();

  // The direction stays valid until the walk begins again or ends.
  void begin(const Direction& direction = {});
  void forward(const Step& step, const Inputs& inputs);
  // Takes ket and bras back through the last step, and adds the derivatives by its
  // parameters.
  void backward(const Step& step, const Inputs& inputs, const Gradients& gradients);

 private:
  Segment segment_of(const Step& step, std::size_t number, const Inputs& inputs,
                     std::int64_t column);
  TiledProgram iteration(const Segment& segment, std::size_t number) const;
  bool is_tiled() const;
  // Before a segment goes tile by tile, as often as `passes`.
  void expect_work(const Segment& segment, std::size_t passes) const;

  States states_;
  // Of which the scratch memory has matrices.
  const Step* step_ = nullptr;
  // Under way. It is kept until the next one is there, so that no other is taken for
  // what the scratch memory has matrices of.
  std::shared_ptr<const Plan> plan_;
  Program program_{};
  bool can_go_back_;
  Direction direction_;
  // Of the step under way, in place of its parameters; null where it has these.
  const float* singles_ = nullptr;
  std::vector<double> widened_;
  std::vector<std::byte> removed_;
  // The state is zero, and nothing was written.
  bool is_unset_ = false;
};

}  // namespace bellhop::engine
