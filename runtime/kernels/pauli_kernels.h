// kernels/pauli_kernels.h: apply Pauli words to a state. Compiled for one instruction
// set; see kernels/lanes.h.
//
// (P v)[i] is v[i ^ flips], times the sign given by i's bits `signs`, times -i for each
// Y. Only amplitudes whose bits `mask` equal `value` (the controls, which P does not
// change) are processed.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// A Pauli word of an operation, with its bits split for the layout.
struct Word {
  Word(const Operation& word, const Layout& layout)
      : flips(bits_of(word.flips, layout)),
        signs(bits_of(word.signs, layout)),
        mask(bits_of(word.mask, layout)),
        value(bits_of(word.value, layout)) {
    const unsigned y_factors = word.y_factors;
    switch (y_factors % 4) {
      case 0:
        real = 1;
        break;
      case 1:
        imag = -1;
        break;
      case 2:
        real = -1;
        break;
      case 3:
        imag = 1;
        break;
    }
  }
  // Multiplies numbers by the sign of each lane; zero in lanes whose controls do not
  // have the required values.
  Lanes of_lanes(Lanes numbers) const {
    return chosen(matching(mask.low, value.low), numbers * lane_signs(signs.low),
                  Lanes{});
  }
  // Returns -i times the word.
  Word times_minus_i() const {
    Word out = *this;
    out.real = imag;
    out.imag = -real;
    return out;
  }
  [[gnu::always_inline]] Wide of_lanes_in_double(Wide numbers) const {
    return chosen(matching(mask.low, value.low),
                  numbers * widened(lane_signs(signs.low)), Wide{});
  }

  Bits flips, signs, mask, value;
  Real real = 0, imag = 0;  // (-i) to the power of the number of Ys
};

// Returns -1 if an odd number of bits is set, else 1.
inline Real parity_sign(std::size_t bits) {
  return __builtin_parityll(bits) ? Real{-1} : Real{1};
}

struct WideComplex {
  Wide real, imag;
};

// Computes <bra| P |ket>, one number for each lane.
template <int kFlips>
struct WordOverlap {
  static WideComplex run(const Amplitudes& bra, const Amplitudes& ket, std::size_t size,
                         const Word& word) {
    Wide total_real{}, total_imag{};
    Lanes real{}, imag{};
    sum_runs(
        size, word.mask.high, word.value.high, word.flips.high | word.signs.high,
        [&](std::size_t first, std::size_t n) {
          const std::size_t other = first ^ word.flips.high;
          Lanes run_real{}, run_imag{};
          for (std::size_t k = 0; k < n; ++k) {
            const Complex b = {*at(bra.real, first + k), *at(bra.imag, first + k)};
            const Complex v = {exchanged<kFlips>(*at(ket.real, other + k)),
                               exchanged<kFlips>(*at(ket.imag, other + k))};
            run_real += real_product(b, v);
            run_imag += imag_product(b, v);
          }
          const Real sign = parity_sign(first & word.signs.high);
          real += sign * run_real;
          imag += sign * run_imag;
        },
        [&] {
          flush_into(total_real, real);
          flush_into(total_imag, imag);
        });
    total_real = word.of_lanes_in_double(total_real);
    total_imag = word.of_lanes_in_double(total_imag);
    const double to_real = word.real, to_imag = word.imag;
    return {to_real * total_real - to_imag * total_imag,
            to_real * total_imag + to_imag * total_real};
  }
};

// Computes into += coefficient * P |ket>, with a coefficient for each lane.
template <int kFlips>
struct AddWord {
  static void run(const Amplitudes& into, const Amplitudes& ket, std::size_t size,
                  const Word& word, Lanes coefficient) {
    const Lanes by_lane = word.of_lanes(coefficient);
    const Complex factor = {word.real * by_lane, word.imag * by_lane};
    for_each_run(size, word.mask.high, word.value.high,
                 word.flips.high | word.signs.high,
                 [&](std::size_t first, std::size_t n) {
                   const std::size_t other = first ^ word.flips.high;
                   const Real sign = parity_sign(first & word.signs.high);
                   const Lanes real = sign * factor.real, imag = sign * factor.imag;
                   for (std::size_t k = 0; k < n; ++k) {
                     const Complex v = {exchanged<kFlips>(*at(ket.real, other + k)),
                                        exchanged<kFlips>(*at(ket.imag, other + k))};
                     *at(into.real, first + k) += real * v.real - imag * v.imag;
                     *at(into.imag, first + k) += real * v.imag + imag * v.real;
                   }
                 });
  }
};

// Applies exp(-i phi P), given the cosine and sine of phi.
template <int kFlips>
struct RotateWord {
  static void run(const Amplitudes& state, std::size_t size, const Word& word,
                  Lanes cosine_of, Lanes sine) {
    const Lanes cosine =
        chosen(matching(word.mask.low, word.value.low), cosine_of, broadcast(1.0));
    const Lanes by_lane = word.of_lanes(sine);
    // -i times the word's phase.
    const Complex factor = {word.imag * by_lane, -word.real * by_lane};
    const std::size_t flips = word.flips.high;
    // Each pair of registers is processed once, from the register without the highest
    // flipped bit.
    const std::size_t top =
        flips == 0 ? 0 : std::size_t{1} << (63 - __builtin_clzll(flips));
    for_each_run(
        size, top | word.mask.high, word.value.high, flips | word.signs.high,
        [&](std::size_t first, std::size_t n) {
          const std::size_t second = first ^ flips;
          const Real sign0 = parity_sign(first & word.signs.high);
          const Real sign1 = parity_sign(second & word.signs.high);
          const Complex f0 = {sign0 * factor.real, sign0 * factor.imag};
          const Complex f1 = {sign1 * factor.real, sign1 * factor.imag};
          for (std::size_t k = 0; k < n; ++k) {
            Lanes& real0 = *at(state.real, first + k);
            Lanes& imag0 = *at(state.imag, first + k);
            const Complex v0 = {real0, imag0};
            const Complex w0 = {exchanged<kFlips>(v0.real), exchanged<kFlips>(v0.imag)};
            if (flips == 0) {
              real0 = cosine * v0.real + f0.real * w0.real - f0.imag * w0.imag;
              imag0 = cosine * v0.imag + f0.real * w0.imag + f0.imag * w0.real;
              continue;
            }
            Lanes& real1 = *at(state.real, second + k);
            Lanes& imag1 = *at(state.imag, second + k);
            const Complex v1 = {real1, imag1};
            const Complex w1 = {exchanged<kFlips>(v1.real), exchanged<kFlips>(v1.imag)};
            real0 = cosine * v0.real + f0.real * w1.real - f0.imag * w1.imag;
            imag0 = cosine * v0.imag + f0.real * w1.imag + f0.imag * w1.real;
            real1 = cosine * v1.real + f1.real * w0.real - f1.imag * w0.imag;
            imag1 = cosine * v1.imag + f1.real * w0.imag + f1.imag * w0.real;
          }
        });
  }
};

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
