// states/sampled_measurements.cc: samples and frequencies of states of the engine.
#include "states/sampled_measurements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace bellhop::engine {
namespace {

std::uint64_t mask_of(std::int64_t wire, std::size_t qubits) {
  return std::uint64_t{1} << (qubits - 1 - static_cast<std::size_t>(wire));
}

// Mask of the wires whose ones change the sign of a frequency: wires that occur an odd
// number of times among the signs.
std::uint64_t sign_mask_of(const Measurement& measurement, std::size_t qubits) {
  std::uint64_t mask = 0;
  for (const std::int64_t wire : measurement.signs) mask ^= mask_of(wire, qubits);
  return mask;
}

// Masks of the parities that the frequencies depend on.
std::vector<std::uint64_t> masks_of(const MeasurementList& list, std::size_t qubits) {
  std::vector<std::uint64_t> masks;
  for (const Measurement& measurement : list.measurements()) {
    if (measurement.kind != MeasurementKind::kFrequencies) continue;
    for (const std::int64_t wire : measurement.wires) {
      masks.push_back(mask_of(wire, qubits));
    }
    masks.push_back(sign_mask_of(measurement, qubits));
  }
  return masks;
}

std::vector<std::uint64_t> masks_of_all(std::size_t qubits) {
  std::vector<std::uint64_t> masks;
  for (std::size_t bit = 0; bit < qubits; ++bit) {
    masks.push_back(std::uint64_t{1} << bit);
  }
  return masks;
}

// The ends of intervals of shots, each of which is in one group of each measurement.
std::vector<std::size_t> ends_of_intervals(const MeasurementList& list) {
  std::vector<std::size_t> ends;
  for (const Measurement& measurement : list.measurements()) {
    if (measurement.kind != MeasurementKind::kFrequencies) continue;
    std::size_t end = 0;
    for (const std::size_t group : measurement.groups) ends.push_back(end += group);
  }
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  return ends;
}

// How often each cell came, where each shot has its own sample.
std::vector<CellCount> count_each(std::span<const std::uint32_t> samples,
                                  const ShotNumbers& shots,
                                  std::span<const std::size_t> ends) {
  std::vector<CellCount> counts;
  if (ends.empty()) return counts;
  counts.reserve(samples.size());
  std::uint32_t interval = 0;
  for_each_sample(samples.size(), [&](std::size_t i) {
    while (shots[i] >= ends[interval]) ++interval;
    counts.push_back({samples[i], interval, 1});
  });
  return counts;
}

// Spreads the bits of a sample to bytes, the highest first.
class ByteTable {
 public:
  ByteTable() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t bit = 0; bit < 8; ++bit) rows_[i][bit] = i >> (7 - bit) & 1;
    }
  }

  void write(std::uint32_t sample, std::size_t qubits, std::uint8_t* out) const {
    for (; qubits >= 8; qubits -= 8, out += 8) {
      std::memcpy(out, rows_[sample >> (qubits - 8) & 255].data(), 8);
    }
    std::memcpy(out, rows_[sample << (8 - qubits) & 255].data(), qubits);
  }

 private:
  std::array<std::array<std::uint8_t, 8>, 256> rows_;
};

}  // namespace

// Samples are drawn if a measurement returns samples, and if a later derivative begins
// at the sample of the only shot.
bool SampledMeasurements::draws_samples() const {
  const auto& all = measuring_.measurements.measurements();
  return std::ranges::any_of(all, [&](const Measurement& measurement) {
    return measurement.has_samples() &&
           (measurement.kind == MeasurementKind::kSample ||
            (sampling_.drawn != nullptr && sampling_.shots.size() == 1));
  });
}

void SampledMeasurements::draw() {
  if (!draws_.empty()) return;
  const MeasurementList& list = measuring_.measurements;
  const std::size_t qubits = states_.layout().qubits;
  const bool has_samples = draws_samples();
  // Bras need the weights; lists with samples have no bras.
  const bool keeps_weights =
      std::ranges::none_of(list.measurements(), [](const Measurement& measurement) {
        return measurement.kind == MeasurementKind::kSample;
      });
  cells_.emplace(has_samples ? masks_of_all(qubits) : masks_of(list, qubits), qubits);
  ends_ = ends_of_intervals(list);
  for (std::size_t lane = 0; lane < rows_.count; ++lane) {
    const RandomKey key = sampling_.seeds->key(rows_.first + lane);
    Draw& draw = draws_.emplace_back();
    draw.weights = weigh_cells(states_, ket_, lane, *cells_);
    if (has_samples) {
      draw.samples =
          draw_indices(keeps_weights ? draw.weights : std::move(draw.weights),
                       sampling_.shots, key, states_);
      draw.counts = count_each(draw.samples, sampling_.shots, ends_);
    } else {
      draw.counts = draw_counts(draw.weights, sampling_.shots, ends_, key, states_);
    }
  }
  if (sampling_.drawn != nullptr) *sampling_.drawn = draws_.back().samples;
}

template <typename Take>
void SampledMeasurements::for_each_count(const Measurement& measurement,
                                         const Draw& draw, const Take& take) const {
  const std::size_t qubits = states_.layout().qubits;
  std::vector<std::uint64_t> masks;
  for (const std::int64_t wire : measurement.wires) {
    masks.push_back(cells_->to_mask_of_cells(mask_of(wire, qubits)));
  }
  const ParityMap outcome(masks, cells_->bits());
  const std::uint64_t signs =
      cells_->to_mask_of_cells(sign_mask_of(measurement, qubits));
  std::vector<std::size_t> groups;  // of intervals
  std::size_t group = 0, end = measurement.groups.front();
  for (const std::size_t interval_end : ends_) {
    while (interval_end > end) end += measurement.groups[++group];
    groups.push_back(group);
  }
  for_each_sample(draw.counts.size(), [&](std::size_t i) {
    const auto& [cell, interval, count] = draw.counts[i];
    const std::size_t of_group = groups[interval];
    const auto number = static_cast<double>(count);
    take(cell, of_group, (of_group << measurement.wires.size()) + outcome(cell),
         std::popcount(cell & signs) % 2 == 0 ? number : -number);
  });
}

void SampledMeasurements::write(std::size_t i) {
  const Measurement& measurement = measuring_.measurements.measurements()[i];
  const bool is_of_run = measurement.kind == MeasurementKind::kRun;
  if (!is_of_run) draw();
  for (std::size_t lane = 0; lane < rows_.count; ++lane) {
    const Output out = measuring_.outputs[i].of(rows_.first + lane);
    const std::span bits(static_cast<std::uint8_t*>(out.data), out.size);
    if (is_of_run) {
      write_shots(sampling_.shots, bits);
    } else if (measurement.kind == MeasurementKind::kSample) {
      write_bits(measurement, draws_[lane].samples, bits);
    } else {
      write_counts(measurement, draws_[lane], static_cast<double*>(out.data));
    }
  }
}

void SampledMeasurements::write_counts(const Measurement& measurement, const Draw& draw,
                                       double* out) const {
  const std::size_t outcomes = std::size_t{1} << measurement.wires.size();
  std::fill_n(out, measurement.groups.size() * outcomes, 0.0);
  for_each_count(measurement, draw,
                 [&](std::uint32_t, std::size_t, std::size_t value, double count) {
                   out[value] += count;
                 });
  for (const std::size_t group : measurement.groups) {
    for (std::size_t k = 0; k < outcomes; ++k) *out++ /= static_cast<double>(group);
  }
}

void SampledMeasurements::write_bits(const Measurement& measurement,
                                     std::span<const std::uint32_t> samples,
                                     std::span<std::uint8_t> out) const {
  const std::size_t qubits = states_.layout().qubits;
  const auto& wires = measurement.wires;
  const std::size_t columns = wires.empty() ? qubits : wires.size();
  // Shots of other runs have zeros.
  if (samples.size() * columns < out.size()) std::ranges::fill(out, std::uint8_t{0});
  const ByteTable bytes;
  const Parts parts(samples.size(), kShotsOfPart);
  for_each_part(parts, states_, kNanosecondsOfShot, [&](std::size_t part) {
    for (std::size_t i = parts.begin(part); i < parts.end(part); ++i) {
      std::uint8_t* const row = out.data() + sampling_.shots[i] * columns;
      if (wires.empty()) {
        bytes.write(samples[i], qubits, row);
        continue;
      }
      for (std::size_t k = 0; k < columns; ++k) {
        row[k] = (samples[i] & mask_of(wires[k], qubits)) != 0;
      }
    }
  });
}

// A cell's probability p is the sum of |a|^2 over its basis states. The derivative of
// log(p) is 2 Re <bra|tangent of the ket>, where the bra is a / p in the cell and zero
// elsewhere. For a state that is not normalized, or after outcomes, it is the
// derivative of the joint probability of all outcomes.
void SampledMeasurements::add_bra(std::size_t i, const Weight& weight,
                                  const Amplitudes& into) {
  draw();
  const Measurement& measurement = measuring_.measurements.measurements()[i];
  const std::size_t lanes = states_.lanes();
  std::vector<double> factors(cells_->size());
  for (std::size_t lane = 0; lane < rows_.count; ++lane) {
    const Draw& draw = draws_[lane];
    std::ranges::fill(factors, 0.0);
    const auto take = [&](std::uint32_t cell, std::size_t group, std::size_t value,
                          double count) {
      factors[cell] +=
          weight(value, lane) * count /
          (static_cast<double>(measurement.groups[group]) * draw.weights[cell]);
    };
    for_each_count(measurement, draw, take);
    const auto add = [&](auto sum, auto ket) {
      const std::size_t size = size_of(states_);
      using Real = std::remove_reference_t<decltype(*sum.real)>;
      for (std::size_t k = 0; k < size; ++k) {
        const double factor = factors[cells_->cell_of()(k)];
        const std::size_t at = k * lanes + lane;
        sum.real[at] = static_cast<Real>(sum.real[at] + factor * ket.real[at]);
        sum.imag[at] = static_cast<Real>(sum.imag[at] + factor * ket.imag[at]);
      }
    };
    with_numbers(states_.layout(), add, into, ket_);
  }
}

}  // namespace bellhop::engine
