// circuit/dynamic_count.h: derivatives with respect to dynamic-count parameters.
//
// Dynamic-count parameters are gate parameters in loops with a dynamic trip count: only
// the execution knows how many there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace bellhop {

// The index of the first dynamic-count parameter, as in the contract.
constexpr std::int64_t kFirstDynamicCount = std::int64_t{1} << 30;

inline bool is_dynamic_count(std::int64_t number) {
  return number >= kFirstDynamicCount;
}

// Returns the column of a dynamic-count parameter in vectors of all such parameters.
inline std::size_t column_of(std::int64_t number) {
  return static_cast<std::size_t>(number - kFirstDynamicCount);
}

// Checks that integers of this many bits can identify perturbations, which are sums of
// powers of two. Throws CircuitError.
void check_bits(std::int64_t bits);

// The derivatives with respect to dynamic-count parameters that a circuit stores
// between its handlers, and the outcomes that its derivative needs.
class DynamicCount {
 public:
  // Adds a zero derivative of `values` measured values with respect to `parameters`
  // parameters; returns its index. Throws CircuitError if it does not fit into memory.
  std::int32_t begin(std::size_t values, std::size_t parameters);

  // A derivative, f64[values, parameters], row-major.
  struct Derivative {
    std::size_t values = 0;
    std::size_t parameters = 0;
    std::vector<double> numbers;
  };
  // Returns the derivative with the index `number`, from `begin`; throws CircuitError
  // if there is none.
  const Derivative& derivative(std::int32_t number) const;
  const Derivative& newest() const { return derivatives_.back(); }
  Derivative& newest() { return derivatives_.back(); }

  // Adds `value` to the newest derivative: in row `place`, the index of the measured
  // value, and in the column of the parameter `number`, a dynamic-count parameter.
  void add(std::size_t place, std::int64_t number, double value);

  // Stores the VJPs of a derivative with some rows of cotangents, and returns their id,
  // a power of two below 2**bits. A sum of ids denotes the sum of their VJPs. Throws
  // CircuitError.
  double vjp(std::int32_t derivative, std::span<const double> cotangents,
             std::size_t rows, std::size_t values, std::int64_t bits);

  // Writes the sum of the VJPs that `id` denotes, for the parameters from `number` on,
  // as f64[rows, n]; zero for parameters that no gate used. Throws CircuitError if the
  // id is invalid.
  void read(double id, std::int64_t number, std::size_t rows,
            std::span<double> cotangents) const;

  // Stores a mid-circuit outcome under a number, and reads it back. `recall` throws
  // CircuitError if no outcome is stored.
  void remember(std::int64_t number, bool outcome);
  bool recall(std::int64_t number) const;

 private:
  struct Products {
    std::size_t rows = 0;
    std::size_t parameters = 0;
    std::vector<double> numbers;  // [rows, parameters]
  };

  std::vector<Derivative> derivatives_;
  std::vector<Products> products_;
  std::unordered_map<std::int64_t, bool> outcomes_;
};

}  // namespace bellhop
