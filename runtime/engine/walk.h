// engine/walk.h: through the steps of a circuit, forward and back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "circuit/session.h"
#include "states/states.h"

namespace bellhop::engine {

// Where derivatives go: see Sweeps::backward. Those by dynamic-count parameters have a
// table of their own, or are not asked for; there they are those of one row.
struct Gradients {
  std::span<const Amplitudes> bras;
  double* jacobian;
  std::size_t columns;
  std::size_t row_size;
  std::size_t rows;
  double* by_dynamic_count = nullptr;
  std::size_t dynamic_count_columns = 0;
};

// A state on its way through the steps of a circuit, or one for each lane. Used by one
// thread at a time.
class Walk {
 public:
  // Parameters of a step: those of the first row, and how far those of the next are
  // behind.
  struct Parameters {
    const double* first;
    std::size_t stride;
  };

  // One that can go back keeps what projections remove.
  Walk(const Layout& layout, bool can_go_back)
      : states_(layout), can_go_back_(can_go_back) {}
  void let_go_back(bool can_go_back) { can_go_back_ = can_go_back; }

  States& states() { return states_; }
  // State 0; the others are free.
  Amplitudes ket() { return states_.get(0); }

  void begin();
  void forward(const Step& step, const Parameters& parameters);
  // Goes back through the step that was the last, with the bras too, and adds the
  // derivatives by its parameters.
  void backward(const Step& step, const Parameters& parameters,
                const Gradients& gradients);

 private:
  States states_;
  bool can_go_back_;
  std::vector<double> removed_;
};

}  // namespace bellhop::engine
