// circuit/dynamic_count.h: derivatives by parameters whose number only the run knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace bellhop {

// Their numbers begin here; in the contract.
constexpr std::int64_t kFirstDynamicCount = std::int64_t{1} << 30;

inline bool is_dynamic_count(std::int64_t number) {
  return number >= kFirstDynamicCount;
}

// Where the vector of all of them has the one with a number.
inline std::size_t column_of(std::int64_t number) {
  return static_cast<std::size_t>(number - kFirstDynamicCount);
}

// CircuitError unless whole numbers of so many bits can name perturbations, which are
// sums of powers of two.
void check_bits(std::int64_t bits);

// What a circuit keeps of them between the handlers of its derivative.
class DynamicCount {
 public:
  // Makes room for the derivative of so many values by so many parameters, and returns
  // its number.
  std::int32_t begin(std::size_t values, std::size_t parameters);

  // Of so many values by so many parameters: numbers[value * parameters + parameter].
  struct Derivative {
    std::size_t values = 0;
    std::size_t parameters = 0;
    std::vector<double> numbers;
  };
  // Throws CircuitError for one that there is not.
  const Derivative& derivative(std::int32_t number) const;
  const Derivative& newest() const { return derivatives_.back(); }
  Derivative& newest() { return derivatives_.back(); }

  // Adds to the newest derivative, of a value, by its place, by a parameter.
  void add(std::size_t place, std::int64_t number, double value);

  // Keeps the VJPs of rows of cotangents with a derivative, and returns an id. A sum
  // of ids, of so many bits, stands for the sum of their VJPs. Throws CircuitError.
  double vjp(std::int32_t derivative, std::span<const double> cotangents,
             std::size_t rows, std::size_t values, std::int64_t bits);

  // Copies the cotangents of the parameters from `number` on, for each row: zero for
  // those that no gate used. Throws CircuitError for an id that there is not.
  void read(double id, std::int64_t number, std::size_t rows,
            std::span<double> cotangents) const;

  // Keeps an outcome under a number of its own, and returns it. Throws CircuitError for
  // one that was not kept.
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
