// bellhop/uncounted.h: derivatives by parameters whose number only the run knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bellhop {

// Their numbers begin here; in the contract.
constexpr std::int64_t kFirstUncounted = std::int64_t{1} << 30;

inline bool is_uncounted(std::int64_t number) { return number >= kFirstUncounted; }

// What a circuit keeps of them between the handlers of its derivative.
class Uncounted {
 public:
  // Makes room for the derivative of expectation values by so many parameters.
  void begin(std::size_t expvals, std::size_t parameters);

  // Adds to the derivative of an expectation value by a parameter.
  void add(std::size_t expval, std::int64_t number, double value);

  // Keeps the products of rows of cotangents with the derivative, and returns a
  // number that tells them from those of other calls. Throws CircuitError.
  double weigh(std::span<const double> cotangents, std::size_t rows,
               std::size_t expvals);

  // Copies the products for the parameters from `number` on, for each row: zero for
  // those that no gate used. Throws CircuitError for a token that is not the last.
  void read(double token, std::int64_t number, std::size_t rows,
            std::span<double> weights) const;

  void clear();

 private:
  std::size_t expvals_ = 0;
  std::size_t parameters_ = 0;
  std::size_t rows_ = 0;
  double token_ = 0;
  std::vector<double> jacobian_;  // [expvals, parameters]
  std::vector<double> weights_;   // [rows, parameters]
};

}  // namespace bellhop
