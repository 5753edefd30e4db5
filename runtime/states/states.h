// states/states.h: the memory of a thread that runs circuits in the engine.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sweeps/operation.h"
#include "sweeps/sweeps.h"

namespace bellhop::engine {

// State vectors of one layout and what operations on them need beside. Used by one
// thread at a time.
class States {
 public:
  explicit States(const Layout& layout);
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // Makes room in the scratch for a program, or for a matrix that all rows share.
  void fit(const Program& program);
  void fit_matrix(std::size_t targets) { fit_gathered(std::size_t{2} << targets); }

  // The matrices in the scratch are of parameters that may change.
  void forget_matrices() { prepared_ = {}; }

  const Layout& layout() const { return layout_; }
  const Scratch& scratch() const { return scratch_; }
  // Rows that are worked on at a time.
  std::size_t lanes() const { return layout_.rows_in_lanes ? sweeps().lanes : 1; }

  // State vector number i, with whatever numbers it had; pointers into others stay.
  Amplitudes get(std::size_t i);
  void set_zero(const Amplitudes& state) const;        // no amplitude
  void set_zero_state(const Amplitudes& state) const;  // all qubits zero
  void copy(const Amplitudes& from, const Amplitudes& to) const;

 private:
  struct Free {
    void operator()(double* numbers) const;
  };
  using Numbers = std::unique_ptr<double[], Free>;
  static Numbers allocate(std::size_t count);

  void fit_gathered(std::size_t numbers);

  const Layout layout_;
  const std::size_t size_;  // doubles of a real part
  std::size_t factors_ = 0;
  std::size_t operations_ = 0;
  std::size_t numbers_gathered_ = 0;
  Numbers of_program_;
  Numbers gathered_;
  Prepared prepared_;
  Scratch scratch_;
  std::vector<Numbers> vectors_;
};

}  // namespace bellhop::engine
