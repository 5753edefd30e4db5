// kernels/matrices.h: apply dense matrices on several qubits. Compiled for one
// instruction set; see kernels/lanes.h.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// Views memory as numbers of a type.
template <typename Number>
Number* as(void* numbers) {
  return static_cast<Number*>(numbers);
}

// Applies a matrix of any size, for each value of the bits that are neither targets nor
// in `mask`; the bits in `mask` must equal `value`. Amplitude is Lanes, or Real if a
// target is within a register; `size` is the number of Amplitudes of the state, and
// `bits` has one mask for each target. `entries` are row-major, with real and imaginary
// parts in turn. `gathered` is memory for 2 * 2^targets Amplitudes.
template <typename Amplitude, typename Entry>
void apply_matrix_to(void* real_at, void* imag_at, std::size_t size,
                     const std::size_t* bits, std::size_t targets, std::size_t mask,
                     std::size_t value, const Entry* entries, bool is_adjoint,
                     void* gathered) {
  Amplitude* const real = as<Amplitude>(real_at);
  Amplitude* const imag = as<Amplitude>(imag_at);
  const std::size_t dimension = std::size_t{1} << targets;
  Amplitude* const old_real = as<Amplitude>(gathered);
  Amplitude* const old_imag = old_real + dimension;
  std::size_t target_mask = 0;
  for (std::size_t t = 0; t < targets; ++t) target_mask |= bits[t];
  const auto offset = [&](std::size_t index) {
    std::size_t at_bits = 0;
    for (std::size_t t = 0; t < targets; ++t) {
      if ((index >> (targets - 1 - t)) & 1) at_bits |= bits[t];
    }
    return at_bits;
  };
  for_each_run(
      size, target_mask | mask, value, 0, [&](std::size_t first, std::size_t n) {
        for (std::size_t k = first; k < first + n; ++k) {
          for (std::size_t i = 0; i < dimension; ++i) {
            old_real[i] = real[k | offset(i)];
            old_imag[i] = imag[k | offset(i)];
          }
          for (std::size_t i = 0; i < dimension; ++i) {
            Amplitude sum_real{}, sum_imag{};
            for (std::size_t j = 0; j < dimension; ++j) {
              const std::size_t place =
                  is_adjoint ? j * dimension + i : i * dimension + j;
              const auto r = narrow(entries[2 * place]);
              const auto m =
                  narrow(is_adjoint ? -entries[2 * place + 1] : entries[2 * place + 1]);
              sum_real += r * old_real[j] - m * old_imag[j];
              sum_imag += r * old_imag[j] + m * old_real[j];
            }
            real[k | offset(i)] = sum_real;
            imag[k | offset(i)] = sum_imag;
          }
        }
      });
}

// Copies n registers with permuted lanes.
template <int kFlips>
struct Exchange {
  static void run(const Lanes* from, std::size_t n, Lanes* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = exchanged<kFlips>(from[i]);
  }
};

// A dense matrix: the bits of its targets in an amplitude's index, the most significant
// bit of the matrix index first, and its entries, row-major with real and imaginary
// parts in turn. An Entry is a double, or Wide for one matrix in each lane.
template <typename Entry>
struct AnyMatrix {
  const std::uint8_t* bits;
  std::size_t targets;
  const Entry* entries;
  bool is_adjoint;

  Complex at(std::size_t row, std::size_t column) const {
    const std::size_t place =
        is_adjoint ? column << targets | row : row << targets | column;
    const Lanes imag = as_lanes(entries[2 * place + 1]);
    return {as_lanes(entries[2 * place]), is_adjoint ? -imag : imag};
  }
};

// A matrix some of whose target bits may be within a register. Each row of its table
// gives the new value of one register: a sum over the registers that differ from it in
// the other target bits, with permuted lanes, times a factor for each lane.
template <typename Entry>
class MatrixTable {
 public:
  MatrixTable(const Layout& layout, const AnyMatrix<Entry>& matrix, std::uint64_t mask,
              std::uint64_t value, void* gathered)
      : mask_(bits_of(mask, layout)), value_(bits_of(value, layout)) {
    std::size_t columns[kMostInTable], of_lane[kLanes] = {};
    const int lane_bits = layout.rows_in_lanes ? 0 : kLaneBits;
    std::size_t n_low = 0;
    for (std::size_t t = 0; t < matrix.targets; ++t) {
      if (matrix.bits[t] < lane_bits) ++n_low;
    }
    // Column i of the table is the register and lane permutation that differs from a
    // row by these target bits.
    for (std::size_t i = 0; i < std::size_t{1} << matrix.targets; ++i) {
      std::size_t high = 0, place = 0;
      std::size_t next_low = matrix.targets - n_low, next_high = 0;
      int low = 0;
      for (std::size_t t = 0; t < matrix.targets; ++t) {
        const bool is_low = matrix.bits[t] < lane_bits;
        const std::size_t digit = (i >> (is_low ? next_low++ : next_high++)) & 1;
        place |= digit << (matrix.targets - 1 - t);
        if (is_low) {
          low |= static_cast<int>(digit) << matrix.bits[t];
        } else {
          high |= digit << (matrix.bits[t] - lane_bits);
        }
      }
      columns[i] = place;
      if (i < kMostInTable >> n_low) offsets_[i] = high;
      exchanges_[i] = low;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      for (std::size_t t = 0; t < matrix.targets; ++t) {
        const bool is_one = matrix.bits[t] < lane_bits && (lane >> matrix.bits[t]) & 1;
        if (is_one) of_lane[lane] |= std::size_t{1} << (matrix.targets - 1 - t);
      }
    }
    columns_ = std::size_t{1} << matrix.targets;
    rows_ = columns_ >> n_low;
    old_ = as<Lanes>(gathered);
    // The table follows the gathered amplitudes and the entries.
    table_ = as<Complex>(as<Wide>(gathered) + 2 * columns_ * (1 + columns_));
    const LaneBits controlled = matching(mask_.low, value_.low);
    for (std::size_t i = 0; i < rows_; ++i) {
      targets_ |= offsets_[i];
      for (std::size_t j = 0; j < columns_; ++j) {
        Complex entry{};
        for (int lane = 0; lane < kLanes; ++lane) {
          const std::size_t row = columns[i] | of_lane[lane];
          const Complex of_row = matrix.at(row, columns[j] ^ of_lane[lane]);
          entry.real[lane] = of_row.real[lane];
          entry.imag[lane] = of_row.imag[lane];
        }
        table_[i * columns_ + j] = chosen(controlled, entry, i == j ? one() : zero());
      }
    }
  }

  // Applies the matrix to a state of `size` registers, in place.
  void apply(const Amplitudes& state, std::size_t size) const {
    for_each_run(size, targets_ | mask_.high, value_.high, 0,
                 [&](std::size_t first, std::size_t n) {
                   for (std::size_t k = first; k < first + n; ++k) apply_at(state, k);
                 });
  }

 private:
  static constexpr std::size_t kMostInTable = std::size_t{1} << kMostTableTargets;

  // Applies the matrix to the registers whose lowest index is k.
  void apply_at(const Amplitudes& state, std::size_t k) const {
    Lanes* const old_imag = old_ + columns_;
    for (std::size_t i = 0; i < rows_; ++i) {
      old_[i] = *at(state.real, k | offsets_[i]);
      old_imag[i] = *at(state.imag, k | offsets_[i]);
    }
    for (std::size_t j = rows_; j < columns_; j += rows_) {
      for_flips<Exchange>(exchanges_[j], old_, rows_, old_ + j);
      for_flips<Exchange>(exchanges_[j], old_imag, rows_, old_imag + j);
    }
    for (std::size_t i = 0; i < rows_; ++i) {
      const Complex* const row = table_ + i * columns_;
      // Separate sums, so that no addition waits for another.
      Lanes rr{}, ii{}, ri{}, ir{};
      for (std::size_t j = 0; j < columns_; ++j) {
        rr += row[j].real * old_[j];
        ii += row[j].imag * old_imag[j];
        ri += row[j].real * old_imag[j];
        ir += row[j].imag * old_[j];
      }
      *at(state.real, k | offsets_[i]) = rr - ii;
      *at(state.imag, k | offsets_[i]) = ri + ir;
    }
  }

  const Bits mask_, value_;
  std::size_t offsets_[kMostInTable];
  int exchanges_[kMostInTable];
  std::size_t rows_, columns_, targets_ = 0;
  Lanes* old_;
  Complex* table_;
};

// Applies a matrix to a state in place, where the bits `mask` of the index equal
// `value`. Uses a table for at most kMostTableTargets targets. `gathered` is
// Scratch::gathered.
template <typename Entry>
void apply_any_matrix(const Layout& layout, const AnyMatrix<Entry>& matrix,
                      std::uint64_t mask, std::uint64_t value, const Amplitudes& state,
                      void* gathered) {
  if (matrix.targets <= kMostTableTargets) {
    return MatrixTable<Entry>(layout, matrix, mask, value, gathered)
        .apply(state, registers_of(layout));
  }
  std::size_t flat[kMostTargets];
  bool within = false;
  for (std::size_t t = 0; t < matrix.targets; ++t) {
    flat[t] = std::size_t{1} << matrix.bits[t];
    within |= !layout.rows_in_lanes && matrix.bits[t] < kLaneBits;
  }
  within |= !layout.rows_in_lanes && (mask & (kLanes - 1)) != 0;
  if constexpr (sizeof(Entry) == sizeof(double)) {
    if (within) {
      return apply_matrix_to<Real>(
          state.real, state.imag, std::size_t{1} << layout.qubits, flat, matrix.targets,
          mask, value, matrix.entries, matrix.is_adjoint, gathered);
    }
  }
  const int shift = layout.rows_in_lanes ? 0 : kLaneBits;
  for (std::size_t t = 0; t < matrix.targets; ++t) flat[t] >>= shift;
  apply_matrix_to<Lanes>(state.real, state.imag, registers_of(layout), flat,
                         matrix.targets, mask >> shift, value >> shift, matrix.entries,
                         matrix.is_adjoint, gathered);
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
