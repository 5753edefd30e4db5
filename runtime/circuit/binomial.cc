// circuit/binomial.cc: exact samples of binomial distributions, by inversion where the
// mean is small, and by transformed rejection where it is not.
#include "circuit/binomial.h"

#include <array>
#include <cmath>

namespace bellhop {
namespace {

constexpr double kLeastMeanOfRejection = 10;

// A term below this adds nothing to a sum of which a number of 53 bits is taken.
constexpr double kNegligible = 0x1p-80;

// Goes through the probabilities of 0, 1, 2, ... successes until they exceed a uniform
// number.
std::uint64_t draw_by_inversion(std::uint64_t trials, double p,
                                NumberSequence& numbers) {
  const auto n = static_cast<double>(trials);
  const double odds = p / (1 - p);
  const double none = std::exp(n * std::log1p(-p));
  while (true) {
    double term = none, rest = numbers.next(), k = 0;
    while (rest >= term) {
      rest -= term;
      ++k;
      term *= odds * (n - k + 1) / k;
      // Beyond the mean terms decrease: rounding alone has brought it here.
      if (k > n || (k > n * p && term < kNegligible)) break;
    }
    if (rest < term) return static_cast<std::uint64_t>(k);
  }
}

// log(k!) less Stirling's approximation (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
double stirling_remainder(double k) {
  static constexpr std::array kSmall = {0.08106146679532726, 0.04134069595540929,
                                        0.02767792568499834, 0.02079067210376509,
                                        0.01664469118982119, 0.01387612882307075,
                                        0.01189670994589177, 0.01041126526197209,
                                        0.00925546218271273, 0.00833056343336287};
  if (k < kSmall.size()) return kSmall[static_cast<std::size_t>(k)];
  const double inverse = 1 / (k + 1), square = inverse * inverse;
  return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - square / 1680) * square) * square) *
         inverse;
}

// The algorithm BTRS of W. Hörmann, "The generation of binomial random variates",
// Journal of Statistical Computation and Simulation 46, 101 (1993).
std::uint64_t draw_by_rejection(std::uint64_t trials, double p,
                                NumberSequence& numbers) {
  const auto n = static_cast<double>(trials);
  const double deviation = std::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = n * p + 0.5;
  const double always_below = 0.92 - 4.2 / b;
  while (true) {
    const double u = numbers.next() - 0.5, v = numbers.next();
    const double distance = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / distance + b) * u + center);
    if (distance >= 0.07 && v <= always_below) return static_cast<std::uint64_t>(k);
    // No number either, if the distance is zero.
    if (!(k >= 0 && k <= n)) continue;
    const double mode = std::floor((n + 1) * p);
    const double odds = p / (1 - p);
    const double alpha = (2.83 + 5.1 / b) * deviation;
    const double ratio = (mode + 0.5) * std::log((mode + 1) / (odds * (n - mode + 1))) +
                         (n + 1) * std::log1p((k - mode) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) +
                         stirling_remainder(mode) + stirling_remainder(n - mode) -
                         stirling_remainder(k) - stirling_remainder(n - k);
    if (std::log(v * alpha / (a / (distance * distance) + b)) <= ratio) {
      return static_cast<std::uint64_t>(k);
    }
  }
}

}  // namespace

std::uint64_t draw_binomial(std::uint64_t trials, double probability,
                            NumberSequence& numbers) {
  if (trials == 0 || !(probability > 0)) return 0;
  if (probability >= 1) return trials;
  if (probability > 0.5) {
    return trials - draw_binomial(trials, 1 - probability, numbers);
  }
  return static_cast<double>(trials) * probability < kLeastMeanOfRejection
             ? draw_by_inversion(trials, probability, numbers)
             : draw_by_rejection(trials, probability, numbers);
}

}  // namespace bellhop
