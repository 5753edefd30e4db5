// derivatives/derivative.cc: derivatives of any order, from values or adjoint
// derivatives at shifted parameters.
#include "derivatives/derivative.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "derivatives/shifted_executions.h"
#include "devices/checked_size.h"
#include "devices/memory.h"

namespace bellhop {
namespace {

// Returns the indices of the dynamic-count parameters of the first `steps` gates and
// projections, in order.
Numbers list_dynamic_count_parameters(const Session& session, std::size_t steps) {
  Numbers numbers;
  for (const Step& step : std::span(session.steps).first(steps)) {
    if (step.gates == nullptr || !is_dynamic_count(step.offset)) continue;
    for (std::size_t i = 0; i < step.params.values.size(); ++i) {
      numbers.push_back(step.offset + static_cast<std::int32_t>(i));
    }
  }
  return numbers;
}

// Returns the length of a vector with a column for each of these dynamic-count
// parameters.
std::size_t count_columns(const Numbers& dynamic_count) {
  // The program may number its parameters in any order.
  return dynamic_count.empty() ? 0 : column_of(std::ranges::max(dynamic_count)) + 1;
}

// Calls `act` for each combination with repetition of `size` indices, in the order 00,
// 01, 02, ..., 11, 12, ...
template <typename Act>
void for_each_choice(const Numbers& from, std::size_t size, Act&& act) {
  if (from.empty() && size > 0) return;
  std::vector<std::size_t> places(size);
  Numbers choice(size);
  for (std::size_t k = 1; k > 0;) {
    for (std::size_t i = 0; i < size; ++i) choice[i] = from[places[i]];
    act(choice);
    k = size;
    while (k > 0 && places[k - 1] + 1 == from.size()) --k;
    if (k == 0) return;
    std::fill(places.begin() + static_cast<std::ptrdiff_t>(k) - 1, places.end(),
              places[k - 1] + 1);
  }
}

constexpr const char* kDerivative = "derivative of a circuit";
constexpr const char* kDirections = "directions of a derivative";

// The vectors of all directions, read from the session.
class DirectionVectors {
 public:
  DirectionVectors(const Session& session, const DirectionRows& directions,
                   std::size_t columns)
      : order_(directions.order) {
    for (const double id : directions.ids) {
      auto [found, is_new] = by_id_.try_emplace(id);
      if (is_new) {
        expect_numbers(checked_product(by_id_.size(), columns, kDirections),
                       kDirections);
        found->second.resize(columns);
        session.directions.read(id, found->second);
      }
      of_rows_.push_back(found->second);
    }
  }

  // Returns direction k of a row.
  std::span<const double> of(std::size_t row, std::size_t k) const {
    return of_rows_[row * order_ + k];
  }

  // Returns the product of a row's directions at a combination of parameters, summed
  // over all permutations of the combination.
  double weight(std::size_t row, Numbers choice) const {
    double sum = 0;
    do {
      double product = 1;
      for (std::size_t k = 0; k < choice.size(); ++k) {
        product *= of(row, k)[column_of(choice[k])];
      }
      sum += product;
    } while (std::ranges::next_permutation(choice).found);
    return sum;
  }

  // Returns whether any direction is nonzero at a parameter.
  bool is_nonzero(std::int32_t number) const {
    return std::ranges::any_of(by_id_, [=](const auto& entry) {
      return entry.second[column_of(number)] != 0;
    });
  }

 private:
  std::size_t order_;
  std::map<double, std::vector<double>> by_id_;
  std::vector<std::span<const double>> of_rows_;
};

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void check_size(std::size_t expected, std::size_t given) {
  if (given == expected) return;
  throw CircuitError("derivative buffer: expected " + std::to_string(expected) +
                     " elements, got " + std::to_string(given) + "." + kDamaged);
}

// Computes the derivatives with respect to all static-count parameters. A derivative
// does not depend on the order of its parameters, so each combination is computed once,
// and written for all of its permutations.
class Tensor {
 public:
  Tensor(Session& session, const PerRow<std::span<const double>>& params,
         const Differentiation& by, const Measured& measured, std::span<double> result,
         const Helpers& helpers)
      : by_(by),
        result_(result),
        runs_(session, params, by, measured, helpers),
        params_(by.rules.of_parameters.size()),
        dynamic_count_(by.directions.order > 0
                           ? list_dynamic_count_parameters(session, by.steps)
                           : Numbers()),
        columns_(count_columns(dynamic_count_)),
        vectors_(session, by.directions, columns_),
        has_jacobians_(by.adjoint && by.order + by.directions.order > 0) {
    std::size_t size =
        checked_product(checked_product(runs_.batch(), by.directions.rows, kDerivative),
                        runs_.width(), kDerivative);
    for (std::size_t k = 0; k < by.order; ++k)
      size = checked_product(size, params_, kDerivative);
    check_size(size, result.size());
  }

  // Computes all derivatives.
  void run() {
    std::ranges::fill(result_, 0.0);
    if (result_.empty()) return;
    Numbers shifted;
    for (std::size_t i = 0; i < params_; ++i) {
      const auto number = static_cast<std::int32_t>(i);
      if (runs_.has_shift_terms(number)) shifted.push_back(number);
    }
    Numbers along;
    for (const std::int32_t number : dynamic_count_) {
      if (vectors_.is_nonzero(number)) along.push_back(number);
    }
    if (by_.directions.order > 0 && along.empty()) return;
    const bool is_last_static = has_jacobians_ && by_.order > 0;
    const bool is_last_dynamic = has_jacobians_ && by_.order == 0;
    for_each_choice(
        along, by_.directions.order - is_last_dynamic, [&](const Numbers& d) {
          std::vector<double> weights;
          for (std::size_t row = 0; row < by_.directions.rows; ++row) {
            weights.push_back(vectors_.weight(row, d));
          }
          if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
            return;
          if (!d.empty() && !runs_.has_shift_terms(d.front())) return;
          for_each_choice(shifted, by_.order - is_last_static,
                          [&](const Numbers& s) { add(s, d, weights); });
        });
    flush();
  }

 private:
  // The contribution of one execution to the derivative of a combination.
  struct Part {
    std::size_t choice;
    std::size_t run;
    double coefficient;
  };
  struct Choice {
    Numbers by;
    std::vector<double> weights;  // of each row of directions
  };

  // Adds the points of a derivative, and executes them if enough have been collected.
  void add(const Numbers& static_count, const Numbers& dynamic_count,
           const std::vector<double>& weights) {
    Numbers all = static_count;
    all.insert(all.end(), dynamic_count.begin(), dynamic_count.end());
    runs_.add(all, [&](std::size_t run, double coefficient) {
      parts_.push_back({choices_.size(), run, coefficient});
    });
    choices_.push_back({static_count, weights});
    const std::size_t of_run =
        runs_.width() * runs_.batch() * (has_jacobians_ ? params_ + columns_ : 1);
    if (runs_.size() * of_run + parts_.size() >= kNumbersAtOnce) flush();
  }

  // Executes the collected points and adds their contributions to the result.
  void flush() {
    if (parts_.empty()) return;
    if (has_jacobians_) {
      runs_.measure_jacobians(columns_);
    } else {
      runs_.measure();
    }
    for (const Part& part : parts_) {
      for (std::size_t element = 0; element < runs_.batch(); ++element) {
        for (std::size_t row = 0; row < by_.directions.rows; ++row) {
          add_part(part, element, row);
        }
      }
    }
    parts_.clear();
    choices_.clear();
    runs_.clear();
  }

  // Adds the contribution of one execution, for one row of the batch and one row of
  // directions.
  void add_part(const Part& part, std::size_t element, std::size_t row) {
    const Choice& choice = choices_[part.choice];
    const double factor = part.coefficient * choice.weights[row];
    if (factor == 0) return;
    const std::size_t first = (element * by_.directions.rows + row) * runs_.width();
    if (!has_jacobians_) {
      runs_.visit(element, part.run, [&](std::size_t place, double value) {
        for_each_order(choice.by, first + place,
                       [&](std::size_t index) { result_[index] += factor * value; });
      });
      return;
    }
    for (std::size_t place = 0; place < runs_.width(); ++place) {
      if (by_.order == 0) {
        result_[first + place] +=
            factor * dot(runs_.by_dynamic_count(part.run, place),
                         vectors_.of(row, by_.directions.order - 1));
        continue;
      }
      const auto jacobian = runs_.jacobian(element, part.run, place);
      for_each_order(choice.by, first + place, [&](std::size_t index) {
        for (std::size_t i = 0; i < params_; ++i) {
          result_[index * params_ + i] += factor * jacobian[i];
        }
      });
    }
  }

  // Calls `act` with the index in the result of each permutation of some parameters.
  template <typename Act>
  void for_each_order(Numbers numbers, std::size_t first, Act&& act) const {
    do {
      std::size_t index = first;
      for (const std::int32_t number : numbers) {
        index = index * params_ + static_cast<std::size_t>(number);
      }
      act(index);
    } while (std::ranges::next_permutation(numbers).found);
  }

  const Differentiation& by_;
  const std::span<double> result_;
  ShiftedExecutions runs_;
  const std::size_t params_;
  const Numbers dynamic_count_;
  const std::size_t columns_;
  const DirectionVectors vectors_;
  const bool has_jacobians_;
  std::vector<Part> parts_;
  std::vector<Choice> choices_;
};

}  // namespace

void differentiate(Session& session, const PerRow<std::span<const double>>& params,
                   const Differentiation& by, const Measured& measured,
                   std::span<double> result, const Helpers& helpers) {
  Tensor tensor(session, params, by, measured, result, helpers);
  if (session.device->shots == 0 || by.directions.order == 0) return tensor.run();
  // XLA may execute derivatives along directions in any order, so each begins with the
  // same seed.
  const std::mt19937 generator = session.device->generator;
  tensor.run();
  session.device->generator = generator;
}

std::int32_t save_derivative(Session& session,
                             const PerRow<std::span<const double>>& params,
                             const Differentiation& by, const Measured& measured,
                             const Helpers& helpers) {
  const Numbers numbers = list_dynamic_count_parameters(session, by.steps);
  ShiftedExecutions runs(session, params, by, measured, helpers);
  const std::int32_t saved =
      session.dynamic_count.begin(runs.width(), count_columns(numbers));
  struct Part {
    std::int32_t number;
    std::size_t run;
    double coefficient;
  };
  std::vector<Part> parts;
  const auto flush = [&] {
    if (parts.empty()) return;
    runs.measure();
    for (const Part& part : parts) {
      runs.visit(0, part.run, [&](std::size_t place, double value) {
        session.dynamic_count.add(place, part.number, part.coefficient * value);
      });
    }
    parts.clear();
    runs.clear();
  };
  for (const std::int32_t number : numbers) {
    if (!runs.has_shift_terms(number)) break;
    runs.add({number}, [&](std::size_t run, double coefficient) {
      parts.push_back({number, run, coefficient});
    });
    if (runs.size() * runs.width() >= kNumbersAtOnce) flush();
  }
  flush();
  return saved;
}

void multiply_saved_derivative(const Session& session, std::int32_t derivative,
                               const DirectionRows& directions,
                               std::span<double> result) {
  const auto& [values, columns, numbers] = session.dynamic_count.derivative(derivative);
  const DirectionVectors vectors(session, directions, columns);
  check_size(checked_product(directions.rows, values, kDerivative),
             checked_product(directions.order, result.size(), kDerivative));
  for (std::size_t row = 0; row < directions.rows; ++row) {
    for (std::size_t place = 0; place < values; ++place) {
      const auto by = std::span(numbers).subspan(place * columns, columns);
      result[row * values + place] = dot(by, vectors.of(row, 0));
    }
  }
}

}  // namespace bellhop
