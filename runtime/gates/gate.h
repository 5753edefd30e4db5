// gates/gate.h: a parsed gate of a circuit.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/wires.h"

namespace bellhop {

// The slots of a gate's parameters, as in the contract: a negative slot is -1 - index
// of a constant. The slots of an array are stored as a range, in constant space.
class Slots {
 public:
  Slots() = default;
  explicit Slots(std::vector<std::int64_t> listed)
      : listed_(std::move(listed)), size_(listed_.size()) {}
  // The slots of an array parameter with `size` numbers, the first of which has the
  // slot `first`.
  Slots(std::int64_t first, std::size_t size)
      : first_(first), size_(size), is_array_(true) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::size_t i) const {
    if (!is_array_) return listed_[i];
    const auto place = static_cast<std::int64_t>(i);
    return first_ < 0 ? first_ - place : first_ + place;
  }
  // Whether the parameters lie side by side, in this order.
  bool is_array() const { return is_array_; }
  // Return the largest and the smallest slot; there must be one at least.
  std::int64_t largest() const { return end(std::ranges::max); }
  std::int64_t smallest() const { return end(std::ranges::min); }

 private:
  template <typename Choose>
  std::int64_t end(const Choose& choose) const {
    if (!is_array_) return choose(listed_);
    return choose(std::array{first_, (*this)[size_ - 1]});
  }

  std::vector<std::int64_t> listed_;
  std::int64_t first_ = 0;
  std::size_t size_ = 0;
  bool is_array_ = false;
};

// A gate or a state preparation, as parsed from the contract's encoding.
struct Gate {
  enum class Kind : std::uint8_t {
    kNamed,
    kMatrix,
    kState,
    kBasisState,
    kDiagonal  // of phases, in the order of the wires' indices
  };

  std::string name;
  std::string site;  // the line of the user's program, or empty
  Kind kind = Kind::kNamed;
  bool inverse = false;
  bool run_time_params = false;  // whether some parameter is not a constant
  bool run_time_wires = false;
  bool has_adjoint_derivative = false;
  double scale = 1;  // times the one parameter of a named gate
  Slots slots;
  std::vector<WireCode> wires;
  std::vector<WireCode> controls;
  std::vector<WireCode> idle;  // wires with I in a Pauli word, which are only validated
  std::vector<bool> control_values;
  std::vector<std::string> pauli_word;  // empty, or one word without I
  // If all parameters are constants: their values, in the plugin's form.
  std::vector<double> params;
  std::vector<std::complex<double>> matrix;

  // Of a state: whether its amplitudes are real, one parameter each.
  bool is_real() const {
    return kind == Kind::kState && slots.size() == std::size_t{1} << wires.size();
  }
  // Whether it is a basis state whose bits are known only at run time.
  bool has_run_time_bits() const {
    return kind == Kind::kBasisState && run_time_params;
  }
};

// Converts a value to the bit of a basis state. `number` is the index of its wire among
// the state's wires. Throws CircuitError unless the value is 0 or 1.
inline bool bit_of(double value, std::size_t number) {
  if (value == 0 || value == 1) return value == 1;
  throw CircuitError("expected 0 or 1 for each wire, got " + std::to_string(value) +
                     " for the wire at position " + std::to_string(number) +
                     " of the basis state.");
}

}  // namespace bellhop
