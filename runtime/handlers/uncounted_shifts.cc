// handlers/uncounted_shifts.cc: derivatives by parameters whose number only the run
// knows, from values at shifted ones.
#include "bellhop/uncounted_shifts.h"

#include <algorithm>
#include <string>
#include <vector>

namespace bellhop {
namespace {

// The values of so many numbers are held at once.
constexpr std::size_t kNumbersAtOnce = std::size_t{1} << 21;

// What the gates that were kept take, in order.
std::vector<std::int32_t> numbers_of(const Session& session) {
  std::vector<std::int32_t> numbers;
  for (const Step& step : session.steps) {
    if (step.gates == nullptr || !is_uncounted(step.offset)) continue;
    for (std::size_t i = 0; i < step.params.values.size(); ++i) {
      numbers.push_back(step.offset + static_cast<std::int32_t>(i));
    }
  }
  return numbers;
}

// The values of the measurements at all points of some parameters: row after row.
class Values {
 public:
  Values(std::span<const std::int64_t> sizes, std::span<const std::int64_t> squares,
         std::size_t rows)
      : squares_(squares) {
    for (const std::int64_t size : sizes) {
      numbers_.emplace_back(rows * static_cast<std::size_t>(size));
      outputs_.push_back({numbers_.back().data(), static_cast<std::size_t>(size)});
    }
  }

  std::span<const Output> outputs() const { return outputs_; }

  // Puts second moments in place of variances, which no rule is for.
  void complete() {
    for (std::size_t i = 0; i < squares_.size(); ++i) {
      if (squares_[i] < 0) continue;
      const std::vector<double>& means =
          numbers_[static_cast<std::size_t>(squares_[i])];
      for (std::size_t row = 0; row < means.size(); ++row) {
        numbers_[i][row] += means[row] * means[row];
      }
    }
  }

  template <typename Visit>
  void visit(std::size_t row, Visit&& act) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      for (std::size_t k = 0; k < outputs_[i].size; ++k) {
        act(place++, numbers_[i][row * outputs_[i].size + k]);
      }
    }
  }

 private:
  std::span<const std::int64_t> squares_;
  std::vector<std::vector<double>> numbers_;
  std::vector<Output> outputs_;
};

}  // namespace

std::int32_t shift_uncounted(Session& session,
                             const PerRow<std::span<const double>>& params,
                             const UncountedShifts& shifts,
                             const MeasurementList& measurements,
                             const PerRow<std::span<const double>>& data,
                             const Helpers& helpers) {
  const std::vector<std::int32_t> numbers = numbers_of(session);
  std::int64_t end = kFirstUncounted;
  for (const std::int32_t number : numbers) {
    end = std::max<std::int64_t>(end, std::int64_t{number} + 1);
  }
  std::size_t width = 0;
  for (const std::int64_t size : shifts.sizes) width += static_cast<std::size_t>(size);
  const std::int32_t derivative =
      session.uncounted.begin(width, static_cast<std::size_t>(end - kFirstUncounted));
  const std::size_t terms = shifts.amounts.size();
  if (numbers.empty() || terms == 0 || width == 0) return derivative;

  const std::size_t at_once =
      std::max<std::size_t>(1, kNumbersAtOnce / (terms * width));
  for (std::size_t first = 0; first < numbers.size(); first += at_once) {
    const std::size_t count = std::min(at_once, numbers.size() - first);
    std::vector<std::int32_t> indices;
    std::vector<double> amounts;
    for (std::size_t i = 0; i < count; ++i) {
      for (const double amount : shifts.amounts) {
        indices.push_back(numbers[first + i]);
        amounts.push_back(amount);
      }
    }
    Values values(shifts.sizes, shifts.squares, indices.size());
    replay(session, params, {indices, amounts, indices.size(), 1},
           {measurements, data, values.outputs()}, helpers);
    values.complete();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const double coefficient = shifts.coefficients[row % terms];
      values.visit(row, [&](std::size_t place, double value) {
        session.uncounted.add(place, indices[row], coefficient * value);
      });
    }
  }
  return derivative;
}

}  // namespace bellhop
