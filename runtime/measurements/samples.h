// measurements/samples.h: what is made of samples, wherever they were drawn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "measurements/measurement.h"

namespace bellhop {

// Writes the outcomes of a measurement's wires, a row for each shot. bit(shot, wire)
// gives a sample's.
template <typename Bit>
void write_samples(const Measurement& measurement, std::size_t qubits,
                   std::size_t shots, const Bit& bit, std::span<std::uint8_t> out) {
  auto next = out.begin();
  for (std::size_t shot = 0; shot < shots; ++shot) {
    if (measurement.wires.empty()) {
      for (std::size_t wire = 0; wire < qubits; ++wire) *next++ = bit(shot, wire);
    }
    for (const std::int64_t wire : measurement.wires) {
      *next++ = bit(shot, static_cast<std::size_t>(wire));
    }
  }
}

// Writes how often each outcome came in each group of shots, as in the contract.
template <typename Bit>
void write_frequencies(const Measurement& measurement, const Bit& bit,
                       std::span<double> out) {
  const std::size_t outcomes = std::size_t{1} << measurement.wires.size();
  std::ranges::fill(out, 0.0);
  std::size_t shot = 0;
  for (const std::size_t group : measurement.groups) {
    for (const std::size_t end = shot + group; shot < end; ++shot) {
      std::size_t outcome = 0;
      for (const std::int64_t wire : measurement.wires) {
        outcome = 2 * outcome + (bit(shot, static_cast<std::size_t>(wire)) ? 1 : 0);
      }
      bool is_odd = false;
      for (const std::int64_t wire : measurement.signs) {
        is_odd ^= bit(shot, static_cast<std::size_t>(wire));
      }
      out[outcome] += is_odd ? -1.0 : 1.0;
    }
    for (double& value : out.first(outcomes)) value /= static_cast<double>(group);
    out = out.subspan(outcomes);
  }
}

}  // namespace bellhop
