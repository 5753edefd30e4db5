// derivatives/dynamic_count_shifts.cc: derivatives by parameters whose number only the
// run knows, from values at shifted ones.
#include "derivatives/dynamic_count_shifts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "derivatives/shifted_values.h"

namespace bellhop {
std::int32_t shift_dynamic_count(Session& session,
                                 const PerRow<std::span<const double>>& params,
                                 const DynamicCountShifts& shifts,
                                 const MeasurementList& measurements,
                                 const PerRow<std::span<const double>>& data,
                                 const Helpers& helpers) {
  const std::vector<std::int32_t> numbers =
      dynamic_count_numbers(session, session.steps.size());
  std::size_t width = 0;
  for (const std::int64_t size : shifts.sizes) width += static_cast<std::size_t>(size);
  const std::int32_t derivative =
      session.dynamic_count.begin(width, dynamic_count_columns(numbers));
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
    ShiftedValues values(shifts.sizes, shifts.squares, indices.size());
    replay(session, params, {indices, amounts, indices.size(), 1, session.steps.size()},
           {measurements, data, values.outputs()}, helpers);
    values.complete();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const double coefficient = shifts.coefficients[row % terms];
      values.visit(row, [&](std::size_t place, double value) {
        session.dynamic_count.add(place, indices[row], coefficient * value);
      });
    }
  }
  return derivative;
}

}  // namespace bellhop
