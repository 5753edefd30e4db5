// derivatives/shifted_executions.h: execute a circuit at shifted parameters, each point
// once.
//
// For the second derivatives with respect to parameters 0 and 1 with the rule of RX:
//
//   runs.add({0, 1}, act)    four points; act(0, 1/4), act(1, -1/4), act(2, -1/4), ...
//   runs.add({0, 0}, act)    three points, as two of the four shifts cancel
//   runs.measure()           executes seven circuits
//   runs.visit(0, 2, act)    act(0, value) for the value of the third point
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "derivatives/differentiation.h"
#include "derivatives/replay.h"
#include "devices/checked_size.h"
#include "devices/memory.h"

namespace bellhop {

// The collected points are executed once their results have this many numbers together.
inline constexpr std::size_t kNumbersAtOnce = std::size_t{1} << 21;

// Indices of parameters in ascending order. A parameter with respect to which a
// derivative is taken twice occurs twice.
using Numbers = std::vector<std::int32_t>;

// Collects points, executes the circuit at all of them, and stores the results.
class ShiftedExecutions {
 public:
  ShiftedExecutions(const Session& session,
                    const PerRow<std::span<const double>>& params,
                    const Differentiation& by, const Measured& measured,
                    const Helpers& helpers)
      : session_(session),
        params_(params),
        by_(by),
        measured_(measured),
        helpers_(helpers),
        batch_(std::max<std::size_t>(session.rows, 1)),
        width_(sum_sizes(measured.sizes)) {
    points_.steps = by.steps;
    points_.basis = by.basis;
  }

  // The number of rows of the batch, or 1.
  std::size_t batch() const { return batch_; }
  // The number of measured values of an execution.
  std::size_t width() const { return width_; }
  // The number of collected points.
  std::size_t size() const { return points_.shifts.size(); }

  // Returns whether the shift rule of a parameter has any terms. If not, derivatives
  // are zero.
  bool has_shift_terms(std::int32_t number) const {
    return get_terms(number).count > 0;
  }

  // Adds the points of a derivative with respect to some parameters. Calls act(run,
  // coefficient) for each: the derivative is the sum of the coefficients times the
  // values of these executions. A point that was added before is executed once.
  template <typename Act>
  void add(const Numbers& numbers, Act&& act) {
    std::vector<std::size_t> at(numbers.size());
    for (bool is_more = true; is_more;) {
      double coefficient = 1;
      std::vector<Shift> point;
      is_more = false;
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        const std::size_t term = get_terms(numbers[k]).first + at[k];
        coefficient *= by_.rules.coefficients[term];
        const double amount = by_.rules.amounts[term];
        const bool is_same = !point.empty() && point.back().number == numbers[k];
        if (is_same) point.back().amount += amount;
        if (!is_same) point.push_back({numbers[k], amount});
      }
      std::erase_if(point, [](const Shift& shift) { return shift.amount == 0; });
      for (std::size_t k = numbers.size(); k-- > 0 && !is_more;) {
        is_more = ++at[k] < get_terms(numbers[k]).count;
        if (!is_more) at[k] = 0;
      }
      const auto [found, is_new] = known_.try_emplace(point, size());
      if (is_new) points_.shifts.push_back(std::move(point));
      act(found->second, coefficient);
    }
  }

  // Executes the circuit at all points. The values can be read until `clear`.
  void measure() {
    std::vector<Output> outputs;
    values_.clear();
    for (const std::int64_t size : measured_.sizes) {
      const auto numbers = static_cast<std::size_t>(size);
      values_.emplace_back(count_numbers(numbers));
      outputs.push_back({values_.back().data(), numbers});
    }
    replay(session_, params_, points_, {measured_.list, measured_.data, outputs},
           helpers_);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (measured_.squares[i] < 0) continue;
      const auto& means = values_[static_cast<std::size_t>(measured_.squares[i])];
      for (std::size_t k = 0; k < means.size(); ++k)
        values_[i][k] += means[k] * means[k];
    }
  }

  // Like measure, but computes the adjoint derivatives of the values.
  void measure_jacobians(std::size_t dynamic_columns) {
    jacobians_.assign(count_numbers(checked_product(width_, params_.size(), kValues)),
                      0.0);
    by_dynamic_count_.assign(
        count_numbers(checked_product(width_, dynamic_columns, kValues)), 0.0);
    dynamic_columns_ = dynamic_columns;
    replay_jacobian(
        session_, params_, points_, {measured_.list, measured_.data, {}},
        {jacobians_, width_, params_.size(), by_dynamic_count_, dynamic_columns},
        helpers_);
  }

  // Calls act(index, value) for each measured value of an execution: `element` is the
  // row of the batch, or 0, and `run` the index of the point, which `add` has passed to
  // `act`.
  template <typename Act>
  void visit(std::size_t element, std::size_t run, Act&& act) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto count = static_cast<std::size_t>(measured_.sizes[i]);
      const double* const from = values_[i].data() + (element * size() + run) * count;
      for (std::size_t k = 0; k < count; ++k) act(place++, from[k]);
    }
  }

  // Return the derivatives of the value with index `place` with respect to all
  // static-count parameters, and with respect to all dynamic-count parameters.
  // `element` and `run` identify the execution as for `visit`. Valid until the next
  // measurement.
  std::span<const double> jacobian(std::size_t element, std::size_t run,
                                   std::size_t place) const {
    return get_row(jacobians_, params_.size(), element, run, place);
  }
  std::span<const double> by_dynamic_count(std::size_t run, std::size_t place) const {
    return get_row(by_dynamic_count_, dynamic_columns_, 0, run, place);
  }

  // Removes all points.
  void clear() {
    points_.shifts.clear();
    known_.clear();
  }

 private:
  struct Terms {
    std::size_t first;
    std::size_t count;
  };

  static constexpr const char* kValues = "values of a differentiated circuit";

  static std::size_t sum_sizes(std::span<const std::int64_t> sizes) {
    std::size_t sum = 0;
    for (const std::int64_t size : sizes)
      sum = checked_sum(sum, static_cast<std::size_t>(size), kValues);
    return sum;
  }

  // Returns how many numbers all executions have, with `each` numbers per execution.
  // Throws CircuitError if they do not fit into memory.
  std::size_t count_numbers(std::size_t each) const {
    const std::size_t runs = checked_product(batch_, size(), kValues);
    const std::size_t numbers = checked_product(runs, each, kValues);
    expect_numbers(numbers, kValues);
    return numbers;
  }

  // Returns the range of terms of a parameter's rule.
  Terms get_terms(std::int32_t number) const {
    const std::span<const std::int64_t> ends = by_.rules.ends;
    const std::size_t rule =
        is_dynamic_count(number)
            ? ends.size() - 1
            : static_cast<std::size_t>(
                  by_.rules.of_parameters[static_cast<std::size_t>(number)]);
    const std::int64_t first = rule == 0 ? 0 : ends[rule - 1];
    return {static_cast<std::size_t>(first),
            static_cast<std::size_t>(ends[rule] - first)};
  }

  std::span<const double> get_row(const std::vector<double>& numbers,
                                  std::size_t columns, std::size_t element,
                                  std::size_t run, std::size_t place) const {
    return std::span(numbers).subspan(
        ((element * size() + run) * width_ + place) * columns, columns);
  }

  const Session& session_;
  const PerRow<std::span<const double>>& params_;
  const Differentiation& by_;
  const Measured& measured_;
  const Helpers& helpers_;
  const std::size_t batch_;
  const std::size_t width_;
  Points points_;
  std::map<std::vector<Shift>, std::size_t> known_;
  std::vector<std::vector<double>> values_;
  std::vector<double> jacobians_;
  std::vector<double> by_dynamic_count_;
  std::size_t dynamic_columns_ = 0;
};

}  // namespace bellhop
