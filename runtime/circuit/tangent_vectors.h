// circuit/tangent_vectors.h: tangents of the dynamic-count parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bellhop {

// Vectors with one element for each dynamic-count parameter, stored as sums of parts. A
// part is nonzero only for some consecutive parameters. An id names a sum, and 0 the
// zero vector. The vector of an id never changes: adding to it makes a new id, so the
// order in which independent sums are made does not matter.
class TangentVectors {
 public:
  // Adds a part, whose first element belongs to the parameter `number`, to the sum
  // `id`. Returns the id of the new sum, an integer of at most `bits` bits. Throws
  // CircuitError if `id` is invalid or there are too many ids.
  double add(double id, std::int64_t number, std::span<const double> part,
             std::int64_t bits);

  // Writes the first direction.size() elements of a sum. Throws CircuitError if `id` is
  // invalid.
  void read(double id, std::span<double> direction) const;

 private:
  struct Part {
    std::size_t before;  // the id of the sum that it was added to
    std::size_t column;
    std::size_t place;  // index of its first element in numbers_
    std::size_t size;
  };

  // Returns an id as an integer; throws CircuitError if it is invalid.
  std::size_t check_id(double id) const;

  std::vector<Part> parts_;
  std::vector<double> numbers_;
};

}  // namespace bellhop
