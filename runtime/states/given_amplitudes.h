// states/given_amplitudes.h: the amplitudes of a preparation, as the program gives
// them.
#pragma once

#include <cstddef>

namespace bellhop::engine {

// An array of amplitudes, in doubles or floats: the real and the imaginary part in
// turn, or real parts alone. The program owns it.
struct GivenAmplitudes {
  const double* doubles;
  const float* singles;  // in place of `doubles`, unless null
  bool is_real;

  // Calls visit with a function from an index to the parts of an amplitude.
  template <typename Visit>
  void with_parts(const Visit& visit) const {
    if (singles != nullptr) return with_parts_of(singles, visit);
    with_parts_of(doubles, visit);
  }

  // Copies `count` amplitudes from index `first` on.
  template <typename Real>
  void copy(std::size_t first, std::size_t count, Real* real, Real* imag) const {
    with_parts([&](const auto& real_of, const auto& imag_of) {
      for (std::size_t i = 0; i < count; ++i) {
        real[i] = static_cast<Real>(real_of(first + i));
        imag[i] = static_cast<Real>(imag_of(first + i));
      }
    });
  }

 private:
  template <typename Number, typename Visit>
  void with_parts_of(const Number* numbers, const Visit& visit) const {
    if (is_real) {
      visit([numbers](std::size_t i) { return numbers[i]; },
            [](std::size_t) { return Number{0}; });
      return;
    }
    visit([numbers](std::size_t i) { return numbers[2 * i]; },
          [numbers](std::size_t i) { return numbers[2 * i + 1]; });
  }
};

}  // namespace bellhop::engine
