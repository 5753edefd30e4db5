// circuit/dynamic_count.cc: derivatives with respect to dynamic-count parameters.
#include "circuit/dynamic_count.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "devices/checked_size.h"
#include "devices/error.h"
#include "devices/memory.h"

namespace bellhop {

namespace {

constexpr const char* kWhat =
    "derivative with respect to the gates of a loop with a dynamic trip count";

// Allocates zeros for [rows, columns]. Checks the size, since the number of parameters
// comes from the program.
std::vector<double> allocate_zeros(std::size_t rows, std::size_t columns) {
  const std::size_t count = checked_product(rows, columns, kWhat);
  expect_numbers(count, kWhat);
  return std::vector<double>(count);
}

}  // namespace

void check_bits(std::int64_t bits) {
  if (bits >= 1 && bits < 64) return;
  throw CircuitError(
      "attribute bits of a circuit's derivative: expected 1 to 63, got " +
      std::to_string(bits) + "." + kDamaged);
}

std::int32_t DynamicCount::begin(std::size_t values, std::size_t parameters) {
  derivatives_.push_back({values, parameters, allocate_zeros(values, parameters)});
  return static_cast<std::int32_t>(derivatives_.size()) - 1;
}

void DynamicCount::add(std::size_t place, std::int64_t number, double value) {
  Derivative& derivative = derivatives_.back();
  derivative.numbers[place * derivative.parameters + column_of(number)] += value;
}

const DynamicCount::Derivative& DynamicCount::derivative(std::int32_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= derivatives_.size()) {
    throw CircuitError(
        "internal error: expected the index of a stored derivative, below " +
        std::to_string(derivatives_.size()) + ", got " + std::to_string(number) +
        ". Please report this as a bug in Bellhop.");
  }
  return derivatives_[static_cast<std::size_t>(number)];
}

double DynamicCount::vjp(std::int32_t number, std::span<const double> cotangents,
                         std::size_t rows, std::size_t values, std::int64_t bits) {
  check_bits(bits);
  const Derivative& all = derivative(number);
  if (values != all.values) {
    throw CircuitError(
        "internal error: VJP of a stored derivative: expected cotangents of " +
        std::to_string(all.values) + " values, got " + std::to_string(values) +
        ". Please report this as a bug in Bellhop.");
  }
  // Each id is a power of two, so integers of this many bits can represent the sums of
  // as many ids.
  if (products_.size() >= static_cast<std::size_t>(bits)) {
    throw CircuitError(
        "a circuit with gates in a loop with a dynamic trip count is differentiated "
        "and measured " +
        std::to_string(bits + 1) + " times, expected at most " + std::to_string(bits) +
        ". Measure in fewer bases: measurements in the same basis count once.");
  }
  Products& products = products_.emplace_back(
      Products{rows, all.parameters, allocate_zeros(rows, all.parameters)});
  for (std::size_t row = 0; row < rows; ++row) {
    double* const sums = products.numbers.data() + row * all.parameters;
    for (std::size_t place = 0; place < values; ++place) {
      const double factor = cotangents[row * values + place];
      if (factor == 0) continue;
      const double* const by = all.numbers.data() + place * all.parameters;
      for (std::size_t i = 0; i < all.parameters; ++i) sums[i] += factor * by[i];
    }
  }
  return std::ldexp(1.0, static_cast<int>(products_.size()) - 1);
}

void DynamicCount::read(double id, std::int64_t number, std::size_t rows,
                        std::span<double> cotangents) const {
  const double end = std::ldexp(1.0, static_cast<int>(products_.size()));
  bool is_known = id >= 0 && id < end && is_dynamic_count(number);
  const auto chosen = is_known ? static_cast<std::uint64_t>(id) : 0;
  const std::size_t first = column_of(number);
  const std::size_t length = rows == 0 ? 0 : cotangents.size() / rows;
  std::ranges::fill(cotangents, 0.0);
  for (std::size_t k = 0; k < products_.size(); ++k) {
    if ((chosen >> k & 1) == 0) continue;
    const Products& products = products_[k];
    is_known = is_known && products.rows == rows;
    if (!is_known || first >= products.parameters) continue;
    const std::size_t known = std::min(length, products.parameters - first);
    for (std::size_t row = 0; row < rows; ++row) {
      const double* const from =
          products.numbers.data() + row * products.parameters + first;
      for (std::size_t i = 0; i < known; ++i) cotangents[row * length + i] += from[i];
    }
  }
  if (!is_known) {
    throw CircuitError(
        "internal error: the cotangents of a loop's parameters were not computed. "
        "Please report this as a bug in Bellhop.");
  }
}

void DynamicCount::remember(std::int64_t number, bool outcome) {
  outcomes_[number] = outcome;
}

bool DynamicCount::recall(std::int64_t number) const {
  const auto found = outcomes_.find(number);
  if (found == outcomes_.end()) {
    throw CircuitError("internal error: outcome " + std::to_string(number) +
                       " was not recorded. Please report this as a bug in Bellhop.");
  }
  return found->second;
}

}  // namespace bellhop
