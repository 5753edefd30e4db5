// circuit/tangent_vectors.h: vectors with a number for each dynamic-count parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bellhop {

// Sums of parts, each of which is zero but for some parameters in a row. An id names
// a sum, and 0 the sum of nothing. What an id names never changes: adding to it makes
// another, so the order in which independent sums are made does not matter.
class TangentVectors {
 public:
  // Adds a part, whose first number is that of parameter `number`, and returns the
  // id of the sum, a number of so many bits. Throws CircuitError for an id that
  // there is not, and for more than there are such.
  double add(double id, std::int64_t number, std::span<const double> part,
             std::int64_t bits);

  // Writes a sum, for so many parameters as there is room for. Throws CircuitError.
  void read(double id, std::span<double> direction) const;

 private:
  struct Part {
    std::size_t before;  // the id that it was added to
    std::size_t column;
    std::size_t place;  // in the numbers
    std::size_t size;
  };

  std::size_t check_id(double id) const;

  std::vector<Part> parts_;
  std::vector<double> numbers_;
};

}  // namespace bellhop
