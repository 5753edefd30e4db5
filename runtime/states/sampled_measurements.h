// states/sampled_measurements.h: measurements of states of the engine that are made of
// shots: samples, frequencies, and which shots a run is of.
//
// Where samples are asked for, all measurements of a call are made of the same samples.
// Else how often each cell of basis states comes is drawn once for all of them, so the
// joint distribution of their results is the same.
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

  // Adds the bra of measurement i, which are frequencies: the derivative of how likely
  // what was drawn is.
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
