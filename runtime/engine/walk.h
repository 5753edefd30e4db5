// engine/walk.h: a state goes through the steps of a circuit, forward and back.
//
// Adjoint derivatives of <Z> after RX(p):  begin(), forward(step, {p}), ket = RX(p)|0>;
// bra = Z ket;  backward(step, {p}, gradients) adds 2 Re <bra|dRX/dp|0>.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "circuit/session.h"
#include "states/states.h"

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

// A state, or one in each lane, on its way through the steps of a circuit. One thread
// uses it at a time.
class Walk {
 public:
  // The parameters of a step: those of the row in the first lane, and how far behind
  // them those of the next row are.
  struct Parameters {
    const double* first;
    std::size_t stride;
  };

  // If it can go back, it keeps the amplitudes that projections remove.
  Walk(const Layout& layout, bool can_go_back)
      : states_(layout), can_go_back_(can_go_back) {}
  void let_go_back(bool can_go_back) { can_go_back_ = can_go_back; }

  States& states() { return states_; }
  // The state that goes through the circuit; it is state vector 0.
  Amplitudes ket() { return states_.get(0); }

  void begin();
  void forward(const Step& step, const Parameters& parameters);
  // Takes ket and bras back through the last step, and adds the derivatives by its
  // parameters.
  void backward(const Step& step, const Parameters& parameters,
                const Gradients& gradients);

 private:
  bool is_tiled() const;

  States states_;
  bool can_go_back_;
  std::vector<double> removed_;
};

}  // namespace bellhop::engine
