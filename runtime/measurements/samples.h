// measurements/samples.h: compute the results of measurements from samples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interpreter/signals.h"
#include "measurements/measurement.h"

namespace bellhop {

// The indices of the shots that samples belong to, in ascending order: all shots, or
// the shots that share an execution.
class ShotNumbers {
 public:
  explicit ShotNumbers(std::size_t all) : count_(all) {}
  explicit ShotNumbers(const std::vector<std::uint32_t>& numbers)
      : count_(numbers.size()), numbers_(numbers.data()) {}

  std::size_t size() const { return count_; }
  std::size_t operator[](std::size_t i) const {
    return numbers_ == nullptr ? i : numbers_[i];
  }
  // Returns how many of them have a number below this.
  std::size_t count_below(std::size_t number) const {
    if (numbers_ == nullptr) return std::min(number, count_);
    return static_cast<std::size_t>(
        std::lower_bound(numbers_, numbers_ + count_, number) - numbers_);
  }

 private:
  std::size_t count_;
  const std::uint32_t* numbers_ = nullptr;
};

// Calls body(i) for each of some samples or amplitudes, in order, and looks for signals
// now and then. Throws Interrupted.
template <typename Body>
void for_each_sample(std::size_t count, const Body& body) {
  for_each_piece(count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
}

// Sets the bits of all shots to zero.
inline void clear_bits(std::span<std::uint8_t> out) {
  for_each_piece(out.size(), [&](std::size_t begin, std::size_t end) {
    std::ranges::fill(out.subspan(begin, end - begin), std::uint8_t{0});
  });
}

// Calls take(i, group) for each sample, in order: `i` is the index of the sample, and
// `group` the index of the group that its shot is in. `groups` has the number of shots
// of each group. Looks for signals now and then; throws Interrupted.
template <typename Take>
void for_each_in_groups(const std::vector<std::size_t>& groups,
                        const ShotNumbers& shots, const Take& take) {
  std::size_t group = 0, end = groups.empty() ? 0 : groups.front();
  for_each_sample(shots.size(), [&](std::size_t i) {
    while (shots[i] >= end) end += groups[++group];
    take(i, group);
  });
}

// Writes the outcomes of a measurement's wires, one row for each shot of the circuit;
// zeros for shots without a sample. bit(i, wire) returns the outcome of sample i.
template <typename Bit>
void write_samples(const Measurement& measurement, std::size_t qubits,
                   const ShotNumbers& shots, const Bit& bit,
                   std::span<std::uint8_t> out) {
  clear_bits(out);
  const auto& wires = measurement.wires;
  const std::size_t columns = wires.empty() ? qubits : wires.size();
  for_each_sample(shots.size(), [&](std::size_t i) {
    const auto row = out.subspan(shots[i] * columns, columns);
    for (std::size_t k = 0; k < columns; ++k) {
      row[k] = bit(i, wires.empty() ? k : static_cast<std::size_t>(wires[k]));
    }
  });
}

// Writes 1 for each of these shots, and 0 for the other shots of the circuit.
inline void write_shots(const ShotNumbers& shots, std::span<std::uint8_t> out) {
  clear_bits(out);
  for_each_sample(shots.size(), [&](std::size_t i) { out[shots[i]] = 1; });
}

// Writes how often each outcome came in each group of shots, divided by the shots of
// the group: f64[groups, 2**wires]. A shot with an odd number of ones on the
// measurement's `signs` counts -1. bit(i, wire) returns the outcome of sample i.
template <typename Bit>
void write_frequencies(const Measurement& measurement, const ShotNumbers& shots,
                       const Bit& bit, std::span<double> out) {
  const std::size_t outcomes = std::size_t{1} << measurement.wires.size();
  std::ranges::fill(out, 0.0);
  for_each_in_groups(measurement.groups, shots, [&](std::size_t i, std::size_t group) {
    std::size_t outcome = 0;
    for (const std::int64_t wire : measurement.wires) {
      outcome = 2 * outcome + (bit(i, static_cast<std::size_t>(wire)) ? 1 : 0);
    }
    bool is_odd = false;
    for (const std::int64_t wire : measurement.signs) {
      is_odd ^= bit(i, static_cast<std::size_t>(wire));
    }
    out[group * outcomes + outcome] += is_odd ? -1.0 : 1.0;
  });
  for (const std::size_t group : measurement.groups) {
    for (double& value : out.first(outcomes)) value /= static_cast<double>(group);
    out = out.subspan(outcomes);
  }
}

}  // namespace bellhop
