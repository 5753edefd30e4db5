// derivatives/directional_derivative.cc: derivatives of any order by parameters whose
// number only the run knows, in given directions.
#include "derivatives/directional_derivative.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "derivatives/shifted_values.h"

namespace bellhop {
namespace {

// All directions, written out.
class Vectors {
 public:
  Vectors(const Session& session, const DirectionRows& directions, std::size_t columns)
      : order_(directions.order) {
    if (order_ == 0) throw CircuitError("A derivative is asked for in no direction.");
    for (const double proxy : directions.proxies) {
      auto [found, is_new] = by_proxy_.try_emplace(proxy);
      if (is_new) {
        found->second.resize(columns);
        session.directions.read(proxy, found->second);
      }
      of_rows_.push_back(found->second);
    }
  }

  std::span<const double> of(std::size_t row, std::size_t k) const {
    return of_rows_[row * order_ + k];
  }

  // Whether any is not zero at a column.
  bool use(std::size_t column) const {
    return std::ranges::any_of(
        by_proxy_, [=](const auto& entry) { return entry.second[column] != 0; });
  }

 private:
  std::size_t order_;
  std::map<double, std::vector<double>> by_proxy_;
  std::vector<std::span<const double>> of_rows_;
};

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void check_size(std::size_t expected, std::size_t given) {
  if (given == expected) return;
  throw CircuitError("A derivative of " + std::to_string(expected) +
                     " numbers is asked for as " + std::to_string(given) + ".");
}

// Goes through the columns that a derivative is taken by. It does not depend on their
// order, so each choice of columns is run once for all of its orders.
class Sum {
 public:
  Sum(Session& session, const PerRow<std::span<const double>>& params,
      const DynamicCountShifts& shifts, const MeasurementList& measurements,
      const PerRow<std::span<const double>>& data, const Shifts& points,
      const DirectionRows& directions, bool adjoint, std::span<double> result,
      const Helpers& helpers)
      : session_(session),
        params_(params),
        shifts_(shifts),
        measurements_(measurements),
        data_(data),
        points_(points),
        rows_(directions.rows),
        adjoint_(adjoint),
        result_(result),
        helpers_(helpers),
        numbers_(dynamic_count_numbers(session, points.steps)),
        columns_(dynamic_count_columns(numbers_)),
        vectors_(session, directions, columns_),
        order_(adjoint ? directions.order - 1 : directions.order),
        width_(static_cast<std::size_t>(
            std::reduce(shifts.sizes.begin(), shifts.sizes.end()))) {
    check_size(rows_ * points.rows * width_, result.size());
    for (std::size_t i = 0; i < order_; ++i) terms_ *= shifts.amounts.size();
  }

  void run() {
    std::ranges::fill(result_, 0.0);
    if (columns_ == 0 || terms_ == 0 || result_.empty()) return;
    std::vector<std::size_t> used;
    for (std::size_t column = 0; column < columns_; ++column) {
      if (vectors_.use(column)) used.push_back(column);
    }
    if (used.empty()) return;
    // Choices of columns in ascending order: 00, 01, 02, ..., 11, 12, ...
    std::vector<std::size_t> places(order_);
    std::vector<std::size_t> choice(order_);
    for (bool is_more = true; is_more;) {
      for (std::size_t k = 0; k < order_; ++k) choice[k] = used[places[k]];
      add(choice);
      std::size_t k = order_;
      while (k > 0 && places[k - 1] + 1 == used.size()) --k;
      is_more = k > 0;
      if (is_more) {
        const std::size_t next = places[k - 1] + 1;
        std::fill(places.begin() + static_cast<std::ptrdiff_t>(k) - 1, places.end(),
                  next);
      }
    }
    flush();
  }

 private:
  // Adds the runs for columns in ascending order.
  void add(std::vector<std::size_t> columns) {
    std::vector<double> weights(rows_);
    do {
      for (std::size_t row = 0; row < rows_; ++row) {
        double weight = 1;
        for (std::size_t k = 0; k < order_; ++k) {
          weight *= vectors_.of(row, k)[columns[k]];
        }
        weights[row] += weight;
      }
    } while (std::ranges::next_permutation(columns).found);
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) return;

    weights_.insert(weights_.end(), weights.begin(), weights.end());
    for (std::size_t point = 0; point < points_.rows; ++point) {
      for (std::size_t term = 0; term < terms_; ++term) {
        const std::size_t first = point * points_.order;
        for (std::size_t k = 0; k < points_.order; ++k) {
          indices_.push_back(points_.indices[first + k]);
          amounts_.push_back(points_.amounts[first + k]);
        }
        double coefficient = 1;
        std::size_t rest = term;
        for (const std::size_t column : columns) {
          const std::size_t of_column = rest % shifts_.amounts.size();
          rest /= shifts_.amounts.size();
          indices_.push_back(static_cast<std::int32_t>(
              kFirstDynamicCount + static_cast<std::int64_t>(column)));
          amounts_.push_back(shifts_.amounts[of_column]);
          coefficient *= shifts_.coefficients[of_column];
        }
        coefficients_.push_back(coefficient);
      }
    }
    const std::size_t of_run =
        adjoint_ ? width_ * (params_.size() + columns_) : width_ + order_;
    if (coefficients_.size() * of_run >= kNumbersAtOnce) flush();
  }

  void flush() {
    const std::size_t runs = coefficients_.size();
    if (runs == 0) return;
    Shifts shifts = points_;
    shifts.indices = indices_;
    shifts.amounts = amounts_;
    shifts.rows = runs;
    shifts.order = points_.order + order_;
    if (adjoint_) {
      add_jacobians(shifts);
    } else {
      add_values(shifts);
    }
    weights_.clear();
    indices_.clear();
    amounts_.clear();
    coefficients_.clear();
  }

  void add_values(const Shifts& shifts) {
    ShiftedValues values(shifts_.sizes, shifts_.squares, shifts.rows);
    replay(session_, params_, shifts, {measurements_, data_, values.outputs()},
           helpers_);
    values.complete();
    for (std::size_t run = 0; run < shifts.rows; ++run) {
      values.visit(run, [&](std::size_t place, double value) {
        for (std::size_t row = 0; row < rows_; ++row)
          at(run, row, place) += weight(run, row) * value;
      });
    }
  }

  void add_jacobians(const Shifts& shifts) {
    std::vector<double> static_count(shifts.rows * width_ * params_.size());
    std::vector<double> dynamic_count(shifts.rows * width_ * columns_);
    replay_jacobian(session_, params_, shifts, {measurements_, data_, {}},
                    {static_count, width_, params_.size(), dynamic_count, columns_},
                    helpers_);
    for (std::size_t run = 0; run < shifts.rows; ++run) {
      for (std::size_t row = 0; row < rows_; ++row) {
        const double factor = weight(run, row);
        if (factor == 0) continue;
        for (std::size_t place = 0; place < width_; ++place) {
          const auto by = std::span(dynamic_count)
                              .subspan((run * width_ + place) * columns_, columns_);
          at(run, row, place) += factor * dot(by, vectors_.of(row, order_));
        }
      }
    }
  }

  double weight(std::size_t run, std::size_t row) const {
    const std::size_t choice = run / (points_.rows * terms_);
    return coefficients_[run] * weights_[choice * rows_ + row];
  }

  double& at(std::size_t run, std::size_t row, std::size_t place) {
    const std::size_t point = run / terms_ % points_.rows;
    return result_[(row * points_.rows + point) * width_ + place];
  }

  Session& session_;
  const PerRow<std::span<const double>>& params_;
  const DynamicCountShifts& shifts_;
  const MeasurementList& measurements_;
  const PerRow<std::span<const double>>& data_;
  const Shifts& points_;
  const std::size_t rows_;
  const bool adjoint_;
  const std::span<double> result_;
  const Helpers& helpers_;
  const std::vector<std::int32_t> numbers_;
  const std::size_t columns_;
  const Vectors vectors_;
  const std::size_t order_;  // of shifts
  const std::size_t width_;
  std::size_t terms_ = 1;  // of the rule, for all columns of a choice

  // What waits to be run: for each choice of columns the weight in each row, and for
  // each of its runs the shifts and the coefficient.
  std::vector<double> weights_;
  std::vector<std::int32_t> indices_;
  std::vector<double> amounts_;
  std::vector<double> coefficients_;
};

}  // namespace

void kept_derivative(const Session& session, std::int32_t derivative,
                     const DirectionRows& directions, std::span<double> result) {
  const auto& [values, columns, numbers] = session.dynamic_count.derivative(derivative);
  const Vectors vectors(session, directions, columns);
  check_size(directions.rows * values, directions.order * result.size());
  for (std::size_t row = 0; row < directions.rows; ++row) {
    for (std::size_t place = 0; place < values; ++place) {
      const auto by = std::span(numbers).subspan(place * columns, columns);
      result[row * values + place] = dot(by, vectors.of(row, 0));
    }
  }
}

void directional_derivative(Session& session,
                            const PerRow<std::span<const double>>& params,
                            const DynamicCountShifts& shifts,
                            const MeasurementList& measurements,
                            const PerRow<std::span<const double>>& data,
                            const Shifts& points, const DirectionRows& directions,
                            bool adjoint, std::span<double> result,
                            const Helpers& helpers) {
  Sum sum(session, params, shifts, measurements, data, points, directions, adjoint,
          result, helpers);
  if (session.device->shots == 0) return sum.run();
  // Derivatives of one circuit come in any order, and each begins at the same seed.
  const std::mt19937 generator = session.device->generator;
  sum.run();
  session.device->generator = generator;
}

}  // namespace bellhop
