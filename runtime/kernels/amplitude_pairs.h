// kernels/amplitude_pairs.h: apply operations to pairs of amplitudes, and compute the
// overlaps for their adjoint derivatives. Compiled for one instruction set; see
// kernels/lanes.h.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// Bits of an amplitude's index, split into the bits of the register's index and the
// bits of the lane within a register.
struct Bits {
  std::size_t high = 0;
  int low = 0;
};

// Splits bits of an amplitude's index. If rows are in lanes, all bits are the
// register's.
inline Bits bits_of(std::uint64_t wires, const Layout& layout) {
  if (layout.rows_in_lanes) return {wires, 0};
  return {wires >> kLaneBits, static_cast<int>(wires & (kLanes - 1))};
}

// The bits that define pairs of amplitudes, see kernels/operation.h.
struct PairBits {
  Bits flips, mask, value;
};

// Returns the number of registers of a state. A state with fewer amplitudes than lanes
// has one register.
inline std::size_t registers_of(const Layout& layout) {
  if (layout.rows_in_lanes) return std::size_t{1} << layout.qubits;
  return layout.qubits <= kLaneBits ? 1 : std::size_t{1} << (layout.qubits - kLaneBits);
}

// Returns the address of register `index` of an array of real or imaginary parts.
inline Lanes* at(void* numbers, std::size_t index) {
  return static_cast<Lanes*>(numbers) + index;
}

// Returns a mask of the lanes whose bits `mask` equal `value`.
inline LaneBits matching(int mask, int value) {
  return (lane_numbers() & static_cast<RealBits>(mask)) == static_cast<RealBits>(value);
}

// Returns -1 in the lanes in which an odd number of `bits` is set, else 1.
inline Lanes lane_signs(int bits) {
  const LaneBits chosen = lane_numbers() & static_cast<RealBits>(bits);
  const LaneBits parity = (chosen ^ (chosen >> 1) ^ (chosen >> 2) ^ (chosen >> 3)) & 1;
  return parity != 0 ? broadcast(-1.0) : broadcast(1.0);
}

// Calls visit(first, n) for ranges of indices below `size` whose bits `mask` equal
// `value`. Within a range, no bit of `mask` or of `apart` changes.
template <typename Visit>
inline void for_each_run(std::size_t size, std::size_t mask, std::size_t value,
                         std::size_t apart, Visit&& visit) {
  const std::size_t fixed = mask | apart;
  const std::size_t length = fixed == 0 ? size : fixed & (~fixed + 1);
  for (std::size_t first = value; first < size;
       first = (((first | mask) + length) & ~mask) | value) {
    visit(first, length);
  }
}

// How many products a lane sums in single precision before they are added to a double.
constexpr std::size_t kMostInSingle = 64;

// Like for_each_run, but calls flush() after each kMostInSingle products in single
// precision, and at the end.
template <typename Visit, typename Flush>
inline void sum_runs(std::size_t size, std::size_t mask, std::size_t value,
                     std::size_t apart, Visit&& visit, Flush&& flush) {
  if constexpr (kIsDouble) {
    for_each_run(size, mask, value, apart, visit);
  } else {
    std::size_t room = kMostInSingle;
    for_each_run(size, mask, value, apart, [&](std::size_t first, std::size_t n) {
      while (n > 0) {
        const std::size_t part = n < room ? n : room;
        visit(first, part);
        first += part;
        n -= part;
        room -= part;
        if (room == 0) {
          flush();
          room = kMostInSingle;
        }
      }
    });
  }
  flush();
}

// Adds a single-precision sum to a double-precision total, and resets the sum.
inline void flush_into(Wide& total, Lanes& sum) {
  total += widened(sum);
  sum = Lanes{};
}

// A 2x2 matrix, row-major. Number is a double, or one value for each lane.
template <typename Number>
struct Matrix2 {
  Number real[4];
  Number imag[4];
};

// A complex number in each lane.
struct Complex {
  Lanes real, imag;
};

// Returns own * v + across * other, for the entries that a matrix form has.
template <Operation::Form kForm>
inline Complex combined(const Complex& own, const Complex& v, const Complex& across,
                        const Complex& other) {
  using Form = Operation::Form;
  if constexpr (kForm == Form::kReal) {
    return {own.real * v.real + across.real * other.real,
            own.real * v.imag + across.real * other.imag};
  } else if constexpr (kForm == Form::kCross) {
    return {own.real * v.real - across.imag * other.imag,
            own.real * v.imag + across.imag * other.real};
  } else if constexpr (kForm == Form::kDiagonal) {
    return {own.real * v.real - own.imag * v.imag,
            own.real * v.imag + own.imag * v.real};
  } else {
    return {own.real * v.real - own.imag * v.imag + across.real * other.real -
                across.imag * other.imag,
            own.real * v.imag + own.imag * v.real + across.real * other.imag +
                across.imag * other.real};
  }
}

// Returns `yes` in the lanes of a mask, and `no` in all other lanes.
template <typename Numbers>
inline Numbers chosen(LaneBits where, Numbers yes, Numbers no) {
  if constexpr (sizeof(Numbers) == sizeof(Lanes)) {
    return where ? yes : no;
  } else {
    return __builtin_convertvector(where, WideBits) ? yes : no;
  }
}
inline Complex chosen(LaneBits where, const Complex& yes, const Complex& no) {
  return {chosen(where, yes.real, no.real), chosen(where, yes.imag, no.imag)};
}

inline Complex entry(const Matrix2<Lanes>& m, int index) {
  return {m.real[index], m.imag[index]};
}

inline Complex one() { return {broadcast(1.0), Lanes{}}; }
inline Complex zero() { return {Lanes{}, Lanes{}}; }

// Masks of the lanes of the first and of the second amplitude of each pair. Without
// flips there are only second amplitudes.
struct Places {
  [[gnu::always_inline]] explicit Places(const PairBits& bits)
      : first(bits.flips.high == 0 && bits.flips.low == 0
                  ? LaneBits{}
                  : matching(bits.mask.low, bits.value.low)),
        second(matching(bits.mask.low,
                        bits.value.low ^ (bits.flips.low & bits.mask.low))) {}
  LaneBits first, second;
};

// Stores an amplitude, or adds it if kAdds.
template <bool kAdds>
inline void put(Complex out, Lanes& real, Lanes& imag) {
  if constexpr (kAdds) {
    real += out.real;
    imag += out.imag;
  } else {
    real = out.real;
    imag = out.imag;
  }
}
// The factor of amplitudes that are in no pair: 1 to keep them, 0 to add nothing.
template <bool kAdds>
inline Complex of_others() {
  return kAdds ? zero() : one();
}

// Applies a matrix to pairs whose amplitudes are in the same register: to `state` in
// place, or if kAdds, adds the result to `into`. `size` is the number of registers.
template <int kFlips, Operation::Form kForm, bool kAdds>
void apply_within(const Amplitudes& state, const Amplitudes& into, std::size_t size,
                  const PairBits& bits, const Matrix2<Lanes>& m) {
  const Amplitudes& to = kAdds ? into : state;
  const Places places(bits);
  const Complex own = chosen(places.first, entry(m, 0),
                             chosen(places.second, entry(m, 3), of_others<kAdds>()));
  const Complex across =
      chosen(places.first, entry(m, 1), chosen(places.second, entry(m, 2), zero()));
  for_each_run(
      size, bits.mask.high, bits.value.high, 0, [&](std::size_t first, std::size_t n) {
        const Lanes* const real = at(state.real, first);
        const Lanes* const imag = at(state.imag, first);
        Lanes* const to_real = at(to.real, first);
        Lanes* const to_imag = at(to.imag, first);
        for (std::size_t k = 0; k < n; ++k) {
          const Complex v = {real[k], imag[k]};
          const Complex other = {exchanged<kFlips>(v.real), exchanged<kFlips>(v.imag)};
          put<kAdds>(combined<kForm>(own, v, across, other), to_real[k], to_imag[k]);
        }
      });
}

// Like apply_within, for pairs whose amplitudes are in different registers.
template <int kFlips, Operation::Form kForm, bool kAdds>
void apply_across(const Amplitudes& state, const Amplitudes& into, std::size_t size,
                  const PairBits& bits, const Matrix2<Lanes>& m) {
  const Amplitudes& to = kAdds ? into : state;
  const Places places(bits);
  const Complex own0 = chosen(places.first, entry(m, 0), of_others<kAdds>());
  const Complex across0 = chosen(places.first, entry(m, 1), zero());
  const Complex own1 = chosen(places.second, entry(m, 3), of_others<kAdds>());
  const Complex across1 = chosen(places.second, entry(m, 2), zero());
  for_each_run(
      size, bits.mask.high, bits.value.high, bits.flips.high,
      [&](std::size_t first, std::size_t n) {
        const std::size_t second = first ^ bits.flips.high;
        const Lanes* const real0 = at(state.real, first);
        const Lanes* const imag0 = at(state.imag, first);
        const Lanes* const real1 = at(state.real, second);
        const Lanes* const imag1 = at(state.imag, second);
        Lanes* const to_real0 = at(to.real, first);
        Lanes* const to_imag0 = at(to.imag, first);
        Lanes* const to_real1 = at(to.real, second);
        Lanes* const to_imag1 = at(to.imag, second);
        for (std::size_t k = 0; k < n; ++k) {
          const Complex v0 = {real0[k], imag0[k]};
          const Complex v1 = {real1[k], imag1[k]};
          const Complex w0 = {exchanged<kFlips>(v0.real), exchanged<kFlips>(v0.imag)};
          const Complex w1 = {exchanged<kFlips>(v1.real), exchanged<kFlips>(v1.imag)};
          Complex out0, out1;
          if constexpr (kForm == Operation::Form::kFlip) {
            out0 = w1;
            out1 = w0;
          } else {
            out0 = combined<kForm>(own0, v0, across0, w1);
            out1 = combined<kForm>(own1, v1, across1, w0);
          }
          put<kAdds>(out0, to_real0[k], to_imag0[k]);
          put<kAdds>(out1, to_real1[k], to_imag1[k]);
        }
      });
}

// Calls Instance<flips>::run with the arguments: the functions that permute lanes take
// the flipped bits of the lane index as a template argument.
template <template <int> class Instance, int kFlips = 0, typename... Arguments>
inline auto for_flips(int flips, Arguments&&... arguments) {
  if constexpr (kFlips + 1 < kLanes) {
    if (flips != kFlips) return for_flips<Instance, kFlips + 1>(flips, arguments...);
  }
  return Instance<kFlips>::run(arguments...);
}

template <Operation::Form kForm, bool kAdds = false>
struct Apply {
  template <int kFlips>
  struct Instance {
    static void run(const Amplitudes& state, const Amplitudes& into, std::size_t size,
                    const PairBits& bits, const Matrix2<Lanes>& m) {
      if (bits.flips.high != 0) {
        apply_across<kFlips, kForm, kAdds>(state, into, size, bits, m);
      } else {
        apply_within<kFlips, kForm, kAdds>(state, into, size, bits, m);
      }
    }
  };
};

// Computes into += m ket on pairs.
inline void add_pairs(const Amplitudes& ket, const Amplitudes& into, std::size_t size,
                      const PairBits& bits, const Matrix2<Lanes>& m) {
  using Add = Apply<Operation::Form::kGeneral, true>;
  for_flips<Add::template Instance>(bits.flips.low, ket, into, size, bits, m);
}

// Applies a matrix to pairs of amplitudes in place. `form` selects the entries of
// `m` that are read, and `size` is the number of registers.
inline void apply_pairs(Operation::Form form, const Amplitudes& state, std::size_t size,
                        const PairBits& bits, const Matrix2<Lanes>& m) {
  using Form = Operation::Form;
  // The flip form exchanges whole registers only.
  if (form == Form::kFlip && (bits.mask.low != 0 || bits.flips.high == 0)) {
    form = Form::kReal;
  }
  const int flips = bits.flips.low;
  switch (form) {
    case Form::kFlip:
      return for_flips<Apply<Form::kFlip>::template Instance>(flips, state, state, size,
                                                              bits, m);
    case Form::kReal:
      return for_flips<Apply<Form::kReal>::template Instance>(flips, state, state, size,
                                                              bits, m);
    case Form::kCross:
      return for_flips<Apply<Form::kCross>::template Instance>(flips, state, state,
                                                               size, bits, m);
    case Form::kDiagonal:
      return for_flips<Apply<Form::kDiagonal>::template Instance>(flips, state, state,
                                                                  size, bits, m);
    case Form::kGeneral:
      return for_flips<Apply<Form::kGeneral>::template Instance>(flips, state, state,
                                                                 size, bits, m);
  }
}

// Returns a matrix with its rows exchanged.
inline Matrix2<Lanes> with_rows_exchanged(const Matrix2<Lanes>& m) {
  return {{m.real[2], m.real[3], m.real[0], m.real[1]},
          {m.imag[2], m.imag[3], m.imag[0], m.imag[1]}};
}

// Applies the matrix `other` to the pairs of one bit where `control`, one other bit of
// the index, is `value`, and the matrix `m` to all other pairs.
inline void apply_by_control(Operation::Form form, const Amplitudes& state,
                             std::size_t size, const PairBits& bits,
                             const Matrix2<Lanes>& m, const Matrix2<Lanes>& other,
                             const Bits& control, const Bits& value) {
  if (control.high == 0) {
    // The control is a bit of the lane, so the lanes have different matrices.
    const LaneBits where = matching(control.low, value.low);
    Matrix2<Lanes> both;
    for (int i = 0; i < 4; ++i) {
      both.real[i] = chosen(where, other.real[i], m.real[i]);
      both.imag[i] = chosen(where, other.imag[i], m.imag[i]);
    }
    return apply_pairs(form, state, size, bits, both);
  }
  PairBits half = bits;
  half.mask.high |= control.high;
  half.value.high |= value.high;
  apply_pairs(form, state, size, half, other);
  half.value.high ^= control.high;
  apply_pairs(form, state, size, half, m);
}

// Im <bra| P |ket> on the pairs, for P the identity and the three Pauli matrices.
struct Overlap {
  Wide one, x, y, z;
};

// Return the imaginary and the real part of conj(bra) * ket.
inline Lanes imag_product(const Complex& bra, const Complex& ket) {
  return bra.real * ket.imag - bra.imag * ket.real;
}
inline Lanes real_product(const Complex& bra, const Complex& ket) {
  return bra.real * ket.real + bra.imag * ket.imag;
}

// Sums of products of a bra's amplitudes with the same amplitudes of a ket, and with
// their partners.
template <typename Sum>
struct Products {
  Sum own{}, imag{}, real{};
};

inline void flush_into(Products<Wide>& total, Products<Lanes>& sums) {
  flush_into(total.own, sums.own);
  flush_into(total.imag, sums.imag);
  flush_into(total.real, sums.real);
}

// The implementation of `overlap` for pairs that differ by kFlips in the lane index.
template <int kFlips>
struct OverlapOf {
  [[gnu::always_inline]] static Overlap run(const Amplitudes& bra,
                                            const Amplitudes& ket, std::size_t size,
                                            const PairBits& bits) {
    const Places places(bits);
    // Sums over the first and over the second amplitudes of pairs.
    Products<Wide> total0, total1;
    Products<Lanes> sums0, sums1;
    if (bits.flips.high != 0) {
      sum_runs(
          size, bits.mask.high, bits.value.high, bits.flips.high,
          [&](std::size_t first, std::size_t n) {
            const std::size_t second = first ^ bits.flips.high;
            for (std::size_t k = 0; k < n; ++k) {
              const Complex b0 = {*at(bra.real, first + k), *at(bra.imag, first + k)};
              const Complex b1 = {*at(bra.real, second + k), *at(bra.imag, second + k)};
              const Complex k0 = {*at(ket.real, first + k), *at(ket.imag, first + k)};
              const Complex k1 = {*at(ket.real, second + k), *at(ket.imag, second + k)};
              const Complex w0 = {exchanged<kFlips>(k0.real),
                                  exchanged<kFlips>(k0.imag)};
              const Complex w1 = {exchanged<kFlips>(k1.real),
                                  exchanged<kFlips>(k1.imag)};
              sums0.own += imag_product(b0, k0);
              sums1.own += imag_product(b1, k1);
              sums0.imag += imag_product(b0, w1);
              sums1.imag += imag_product(b1, w0);
              sums0.real += real_product(b0, w1);
              sums1.real += real_product(b1, w0);
            }
          },
          [&] {
            flush_into(total0, sums0);
            flush_into(total1, sums1);
          });
    } else {
      sum_runs(
          size, bits.mask.high, bits.value.high, 0,
          [&](std::size_t first, std::size_t n) {
            for (std::size_t k = first; k < first + n; ++k) {
              const Complex b = {*at(bra.real, k), *at(bra.imag, k)};
              const Complex v = {*at(ket.real, k), *at(ket.imag, k)};
              const Complex w = {exchanged<kFlips>(v.real), exchanged<kFlips>(v.imag)};
              sums0.own += imag_product(b, v);
              sums0.imag += imag_product(b, w);
              sums0.real += real_product(b, w);
            }
          },
          [&] { flush_into(total0, sums0); });
      total1 = total0;
    }
    const auto of_first = [&](Wide v) { return chosen(places.first, v, Wide{}); };
    const auto of_second = [&](Wide v) { return chosen(places.second, v, Wide{}); };
    const Wide own0 = of_first(total0.own), own1 = of_second(total1.own);
    return {own0 + own1, of_first(total0.imag) + of_second(total1.imag),
            of_second(total1.real) - of_first(total0.real), own0 - own1};
  }
};

// Computes the overlaps of two states on pairs, one number for each lane. `size` is the
// number of registers. The caller sums over lanes if a state is spread over them.
inline Overlap overlap(const Amplitudes& bra, const Amplitudes& ket, std::size_t size,
                       const PairBits& bits) {
  return for_flips<OverlapOf>(bits.flips.low, bra, ket, size, bits);
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
