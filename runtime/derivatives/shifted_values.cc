// derivatives/shifted_values.cc: what circuits with shifted dynamic-count parameters
// give.
#include "derivatives/shifted_values.h"

#include <algorithm>

namespace bellhop {

std::vector<std::int32_t> dynamic_count_numbers(const Session& session,
                                                std::size_t steps) {
  std::vector<std::int32_t> numbers;
  for (const Step& step : std::span(session.steps).first(steps)) {
    if (step.gates == nullptr || !is_dynamic_count(step.offset)) continue;
    for (std::size_t i = 0; i < step.params.values.size(); ++i) {
      numbers.push_back(step.offset + static_cast<std::int32_t>(i));
    }
  }
  return numbers;
}

std::size_t dynamic_count_columns(std::span<const std::int32_t> numbers) {
  std::int64_t end = kFirstDynamicCount;
  for (const std::int32_t number : numbers) {
    end = std::max<std::int64_t>(end, std::int64_t{number} + 1);
  }
  return static_cast<std::size_t>(end - kFirstDynamicCount);
}

ShiftedValues::ShiftedValues(std::span<const std::int64_t> sizes,
                             std::span<const std::int64_t> squares, std::size_t runs)
    : squares_(squares) {
  for (const std::int64_t size : sizes) {
    numbers_.emplace_back(runs * static_cast<std::size_t>(size));
    outputs_.push_back({numbers_.back().data(), static_cast<std::size_t>(size)});
  }
}

void ShiftedValues::complete() {
  for (std::size_t i = 0; i < squares_.size(); ++i) {
    if (squares_[i] < 0) continue;
    const std::vector<double>& means = numbers_[static_cast<std::size_t>(squares_[i])];
    for (std::size_t run = 0; run < means.size(); ++run) {
      numbers_[i][run] += means[run] * means[run];
    }
  }
}

}  // namespace bellhop
