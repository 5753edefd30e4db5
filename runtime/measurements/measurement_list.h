// measurements/measurement_list.h: the measurements of a circuit, parsed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/session.h"
#include "measurements/measurement.h"

namespace bellhop {

// A list of measurements. Read-only after parsing, so executions share it.
class MeasurementList {
 public:
  // `code` as in the contract; throws CircuitError.
  explicit MeasurementList(std::span<const std::int64_t> code);

  std::size_t size() const { return measurements_.size(); }
  // Returns how many numbers of data the measurements use.
  std::size_t numbers() const { return data_; }
  const std::vector<Measurement>& measurements() const { return measurements_; }

  // Measures on the session's device and writes the outputs. Throws CircuitError.
  void measure(Session& session, std::span<const double> data,
               std::span<const Output> outputs) const;

 private:
  std::vector<Measurement> measurements_;
  std::size_t data_ = 0;
};

}  // namespace bellhop
