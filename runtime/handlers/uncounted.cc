// handlers/uncounted.cc: derivatives by parameters whose number only the run knows.
#include "bellhop/uncounted.h"

#include <algorithm>
#include <string>

#include "bellhop/device_pool.h"

namespace bellhop {

void Uncounted::begin(std::size_t expvals, std::size_t parameters) {
  expvals_ = expvals;
  parameters_ = parameters;
  jacobian_.assign(expvals * parameters, 0.0);
  weights_.clear();
  rows_ = 0;
}

void Uncounted::add(std::size_t expval, std::int64_t number, double value) {
  const auto column = static_cast<std::size_t>(number - kFirstUncounted);
  jacobian_[expval * parameters_ + column] += value;
}

double Uncounted::weigh(std::span<const double> cotangents, std::size_t rows,
                        std::size_t expvals) {
  if (expvals != expvals_) {
    throw CircuitError("The derivative of " + std::to_string(expvals_) +
                       " expectation values is weighed with " +
                       std::to_string(expvals) + " numbers.");
  }
  rows_ = rows;
  weights_.assign(rows * parameters_, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    double* const products = weights_.data() + row * parameters_;
    for (std::size_t expval = 0; expval < expvals; ++expval) {
      const double factor = cotangents[row * expvals + expval];
      if (factor == 0) continue;
      const double* const derivative = jacobian_.data() + expval * parameters_;
      for (std::size_t i = 0; i < parameters_; ++i) {
        products[i] += factor * derivative[i];
      }
    }
  }
  return ++token_;
}

void Uncounted::read(double token, std::int64_t number, std::size_t rows,
                     std::span<double> weights) const {
  if (token != token_ || rows != rows_ || !is_uncounted(number)) {
    throw CircuitError(
        "Derivatives by the gates of a loop are read that were not weighed last. This "
        "is a bug in Bellhop; please report it.");
  }
  const std::size_t length = rows == 0 ? 0 : weights.size() / rows;
  const auto first = static_cast<std::size_t>(number - kFirstUncounted);
  const std::size_t known =
      first < parameters_ ? std::min(length, parameters_ - first) : 0;
  std::ranges::fill(weights, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    if (known == 0) break;
    std::copy_n(weights_.data() + row * parameters_ + first, known,
                weights.data() + row * length);
  }
}

void Uncounted::clear() {
  // One long loop must not hold its memory for ever.
  jacobian_ = {};
  weights_ = {};
  expvals_ = parameters_ = rows_ = 0;
}

}  // namespace bellhop
