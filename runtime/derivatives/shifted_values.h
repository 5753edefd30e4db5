// derivatives/shifted_values.h: what circuits with shifted dynamic-count parameters
// give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "circuit/session.h"
#include "measurements/measurement_list.h"

namespace bellhop {

// The results of runs of so many numbers are held at once.
inline constexpr std::size_t kNumbersAtOnce = std::size_t{1} << 21;

// The numbers of the dynamic-count parameters that the first `steps` gates and
// projections took, in order.
std::vector<std::int32_t> dynamic_count_numbers(const Session& session,
                                                std::size_t steps);

// How many columns a table of all of them has.
std::size_t dynamic_count_columns(std::span<const std::int32_t> numbers);

// The values of measurements in many runs. Where squares[i] is not negative, the square
// of that measurement is added to measurement i.
class ShiftedValues {
 public:
  ShiftedValues(std::span<const std::int64_t> sizes,
                std::span<const std::int64_t> squares, std::size_t runs);

  std::span<const Output> outputs() const { return outputs_; }

  // Puts second moments in place of variances, which no rule is for.
  void complete();

  // Calls act(place, value) for each number of a run, in order.
  template <typename Act>
  void visit(std::size_t run, Act&& act) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      for (std::size_t k = 0; k < outputs_[i].size; ++k) {
        act(place++, numbers_[i][run * outputs_[i].size + k]);
      }
    }
  }

 private:
  std::span<const std::int64_t> squares_;
  std::vector<std::vector<double>> numbers_;
  std::vector<Output> outputs_;
};

}  // namespace bellhop
