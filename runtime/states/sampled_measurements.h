// states/sampled_measurements.h: measurements with shots of states of the engine:
// samples, frequencies, and the shots that a run represents.
//
// If a measurement of a call returns samples, all measurements use the same samples.
// Otherwise the counts of all cells of basis states are drawn once for all
// measurements, so the joint distribution of their results is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "circuit/execution_seeds.h"
#include "measurements/measurement_request.h"
#include "measurements/samples.h"
#include "states/cells.h"
#include "states/sampling.h"
#include "states/states.h"

namespace bellhop::engine {

// The rows of a batch whose states are in the lanes; by default, a single circuit.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 1;
};

// How rows are sampled.
struct Sampling {
  ShotNumbers shots;
  const RunSeeds* seeds = nullptr;              // null: nothing is sampled
  std::vector<std::uint32_t>* drawn = nullptr;  // is given the sample of a single shot
};

// Draws samples of the rows in the lanes, and writes results of measurements with
// shots. Made for one execution of the rows; draws before the first result or bra.
// Keeps references to its arguments.
class SampledMeasurements {
 public:
  SampledMeasurements(const States& states, const Amplitudes& ket,
                      const Measuring& measuring, const RowRange& rows,
                      const Sampling& sampling)
      : states_(states),
        ket_(ket),
        measuring_(measuring),
        rows_(rows),
        sampling_(sampling) {}

  // Writes the result of measurement i for each row.
  void write(std::size_t i);

  // The weight of a value of a measurement in a lane.
  using Weight = std::function<double(std::size_t value, std::size_t lane)>;

  // Adds the bra of measurement i, whose results are frequencies: the derivative of the
  // logarithm of the drawn outcomes' probability (score function).
  void add_bra(std::size_t i, const Weight& weight, const Amplitudes& into);

 private:
  // What was drawn for the row in a lane.
  struct Draw {
    std::vector<double> weights;         // of cells
    std::vector<std::uint32_t> samples;  // of shots; none where only counts were drawn
    std::vector<CellCount> counts;
  };

  bool draws_samples() const;
  void draw();
  // Calls take(cell, group, value, count) for what was drawn in a lane, where `value`
  // is the position in the result, and the count is negative for an odd number of
  // signs.
  template <typename Take>
  void for_each_count(const Measurement& measurement, const Draw& draw,
                      const Take& take) const;
  void write_counts(const Measurement& measurement, const Draw& draw,
                    double* out) const;
  void write_bits(const Measurement& measurement,
                  std::span<const std::uint32_t> samples,
                  std::span<std::uint8_t> out) const;

  const States& states_;
  const Amplitudes ket_;
  const Measuring& measuring_;
  const RowRange rows_;
  const Sampling& sampling_;
  std::optional<Cells> cells_;
  std::vector<std::size_t> ends_;  // of intervals: each group is one or several
  std::vector<Draw> draws_;        // of each lane
};

}  // namespace bellhop::engine
