// circuit/gate_numbers.h: the parameters of a run of gates, as a program gives them and
// as a circuit keeps them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "circuit/batched_view.h"

namespace bellhop {

// Parameters as a custom call gives them: doubles, or floats where `singles` has any.
struct GivenNumbers {
  PerRow<std::span<const double>> doubles;
  PerRow<std::span<const float>> singles;

  // Returns how many parameters each row has.
  std::size_t size() const {
    return singles.values.empty() ? doubles.size() : singles.size();
  }
};

// Copies single-precision parameters to doubles, which the result owns.
inline PerRow<std::vector<double>> as_doubles(
    const PerRow<std::span<const float>>& singles) {
  return {{singles.values.begin(), singles.values.end()}, singles.stride};
}

// Doubles that a step of a circuit owns, or that its caller owns and keeps until the
// circuit has ended. Movable but not copyable, so that views of owned doubles stay
// valid.
class KeptNumbers {
 public:
  using value_type = double;

  KeptNumbers() = default;
  explicit KeptNumbers(std::vector<double> numbers)
      : owned_(std::move(numbers)), view_(owned_) {}
  // Refers to numbers of the caller, which must stay valid until the circuit has ended.
  static KeptNumbers borrow(std::span<const double> numbers) {
    KeptNumbers kept;
    kept.view_ = numbers;
    return kept;
  }
  KeptNumbers(KeptNumbers&&) = default;
  KeptNumbers& operator=(KeptNumbers&&) = default;
  KeptNumbers(const KeptNumbers&) = delete;
  KeptNumbers& operator=(const KeptNumbers&) = delete;

  const double* data() const { return view_.data(); }
  std::size_t size() const { return view_.size(); }
  const double* begin() const { return view_.data(); }
  const double* end() const { return view_.data() + view_.size(); }

 private:
  std::vector<double> owned_;
  std::span<const double> view_;
};

}  // namespace bellhop
