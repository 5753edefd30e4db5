// circuit/tangent_vectors.cc: tangents of the dynamic-count parameters.
#include "circuit/tangent_vectors.h"

#include <algorithm>

#include "circuit/dynamic_count.h"
#include "devices/error.h"

namespace bellhop {

namespace {

[[noreturn]] void throw_unknown() {
  throw CircuitError(
      "internal error: a tangent of dynamic-count parameters was not recorded. Please "
      "report this as a bug in Bellhop.");
}

}  // namespace

double TangentVectors::add(double id, std::int64_t number, std::span<const double> part,
                           std::int64_t bits) {
  check_bits(bits);
  const std::size_t before = check_id(id);
  if (!is_dynamic_count(number)) throw_unknown();
  if (std::ranges::all_of(part, [](double value) { return value == 0; })) return id;
  if (parts_.size() >> bits != 0) {
    throw CircuitError(
        "the derivative of a loop with a dynamic trip count needs " +
        std::to_string(parts_.size() + 1) + " tangents, expected at most " +
        std::to_string(std::size_t{1} << bits) +
        " in single precision. Set jax.config.update('jax_enable_x64', True).");
  }
  parts_.push_back({before, column_of(number), numbers_.size(), part.size()});
  numbers_.insert(numbers_.end(), part.begin(), part.end());
  return static_cast<double>(parts_.size());
}

void TangentVectors::read(double id, std::span<double> direction) const {
  std::ranges::fill(direction, 0.0);
  for (std::size_t name = check_id(id); name > 0;) {
    const Part& part = parts_[name - 1];
    for (std::size_t i = 0; i < part.size && part.column + i < direction.size(); ++i) {
      direction[part.column + i] += numbers_[part.place + i];
    }
    name = part.before;
  }
}

std::size_t TangentVectors::check_id(double id) const {
  if (!(id >= 0 && id <= static_cast<double>(parts_.size()))) throw_unknown();
  return static_cast<std::size_t>(id);
}

}  // namespace bellhop
