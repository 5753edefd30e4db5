// kernels/wide_matrices.h: dense matrices on many qubits, as products with panels of
// the state. For one instruction set; see kernels/lanes.h.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// A *column* is the amplitudes that the matrix multiplies: those with any values at its
// qubits and the same at all others. A panel is so many columns next to each other, and
// a block of the product so many rows of registers: what fits the registers, with the
// sums in real and imaginary parts.
constexpr std::size_t kRegistersOfBlock = 2;
constexpr std::size_t kRowsOfBlock = kLanes * sizeof(Real) == 64 ? 4 : 2;
constexpr std::size_t kColumnsOfBlock = kRegistersOfBlock * kLanes;
// Numbers of a panel's real part, so that a panel stays in the second cache.
constexpr std::size_t kNumbersOfPanel = std::size_t{1} << 14;

constexpr std::size_t columns_of_panel(std::size_t targets) {
  std::size_t columns = 4 * kColumnsOfBlock;
  while (columns > kColumnsOfBlock && (columns << targets) > kNumbersOfPanel) {
    columns /= 2;
  }
  return columns;
}

class WideMatrix {
 public:
  // `memory` has wide_matrix_bytes(targets).
  WideMatrix(std::size_t qubits, const std::uint8_t* bits, std::size_t targets,
             std::uint64_t mask, std::uint64_t value, const double* entries,
             bool is_adjoint, void* memory)
      : targets_(targets),
        size_(std::size_t{1} << targets),
        columns_(columns_of_panel(targets)),
        value_(value),
        entries_(entries),
        is_adjoint_(is_adjoint) {
    std::uint64_t fixed = mask;
    for (std::size_t t = 0; t < targets; ++t) fixed |= std::uint64_t{1} << bits[t];
    for (std::size_t q = 0; q < qubits; ++q) {
      if (((fixed >> q) & 1) == 0) others_[n_others_++] = static_cast<std::uint8_t>(q);
    }
    offsets_ = static_cast<std::size_t*>(memory);
    for (std::size_t j = 0; j < size_; ++j) {
      std::size_t at_bits = 0;
      for (std::size_t t = 0; t < targets; ++t) {
        at_bits |= ((j >> (targets - 1 - t)) & 1) << bits[t];
      }
      offsets_[j] = at_bits;
    }
    real_ = as<Real>(offsets_ + size_);
    imag_ = real_ + size_ * columns_;
    rows_ = imag_ + size_ * columns_;
  }

  // Columns first .. first + count, of which there are as many as the other qubits have
  // values.
  void apply(const Amplitudes& state, std::size_t first, std::size_t count) {
    for (std::size_t done = 0; done < count; done += columns_) {
      const std::size_t n = count - done < columns_ ? count - done : columns_;
      apply_to_panel(state, first + done, n);
    }
  }

 private:
  void apply_to_panel(const Amplitudes& state, std::size_t first, std::size_t n) {
    // Whole blocks, of which the columns behind the last are not written back.
    const std::size_t padded =
        (n + kColumnsOfBlock - 1) / kColumnsOfBlock * kColumnsOfBlock;
    std::size_t base[4 * kColumnsOfBlock];
    for (std::size_t c = 0; c < padded; ++c) base[c] = base_of(first + (c < n ? c : 0));
    bool is_one_piece = n == padded;
    for (std::size_t c = 1; c < padded; ++c) is_one_piece &= base[c] == base[0] + c;
    const Real* const real = as<Real>(state.real);
    const Real* const imag = as<Real>(state.imag);
    for (std::size_t j = 0; j < size_; ++j) {
      Real* const to_real = real_ + j * columns_;
      Real* const to_imag = imag_ + j * columns_;
      if (is_one_piece) {
        const std::size_t from = base[0] + offsets_[j];
        for (std::size_t c = 0; c < padded; ++c) to_real[c] = real[from + c];
        for (std::size_t c = 0; c < padded; ++c) to_imag[c] = imag[from + c];
      } else {
        for (std::size_t c = 0; c < padded; ++c) {
          to_real[c] = real[base[c] + offsets_[j]];
          to_imag[c] = imag[base[c] + offsets_[j]];
        }
      }
    }
    for (std::size_t i = 0; i < size_; i += kRowsOfBlock) {
      pack_rows(i);
      for (std::size_t c = 0; c < padded; c += kColumnsOfBlock) {
        const std::size_t wanted = n - c < kColumnsOfBlock ? n - c : kColumnsOfBlock;
        multiply_block(state, i, c, base, wanted, is_one_piece);
      }
    }
  }

  // Of the column, the index of its first amplitude.
  std::size_t base_of(std::size_t column) const {
    std::size_t index = value_;
    for (std::size_t q = 0; q < n_others_; ++q) index |= ((column >> q) & 1) << others_[q];
    return index;
  }

  void pack_rows(std::size_t first) {
    for (std::size_t j = 0; j < size_; ++j) {
      for (std::size_t r = 0; r < kRowsOfBlock; ++r) {
        const std::size_t i = first + r;
        const std::size_t place = is_adjoint_ ? j << targets_ | i : i << targets_ | j;
        Real* const to = rows_ + 2 * (j * kRowsOfBlock + r);
        to[0] = narrow(entries_[2 * place]);
        to[1] = narrow(is_adjoint_ ? -entries_[2 * place + 1] : entries_[2 * place + 1]);
      }
    }
  }

  void multiply_block(const Amplitudes& state, std::size_t row, std::size_t column,
                      const std::size_t* base, std::size_t wanted,
                      bool is_one_piece) const {
    Lanes real[kRowsOfBlock][kRegistersOfBlock] = {};
    Lanes imag[kRowsOfBlock][kRegistersOfBlock] = {};
    for (std::size_t j = 0; j < size_; ++j) {
      const Lanes* const of_real = as<Lanes>(real_ + j * columns_ + column);
      const Lanes* const of_imag = as<Lanes>(imag_ + j * columns_ + column);
      const Real* const entry = rows_ + 2 * j * kRowsOfBlock;
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRowsOfBlock; ++r) {
        const Lanes a = entry[2 * r] - Lanes{}, b = entry[2 * r + 1] - Lanes{};
#pragma GCC unroll 2
        for (std::size_t v = 0; v < kRegistersOfBlock; ++v) {
          // One statement each, which becomes one fused instruction.
          real[r][v] += a * of_real[v];
          real[r][v] -= b * of_imag[v];
          imag[r][v] += a * of_imag[v];
          imag[r][v] += b * of_real[v];
        }
      }
    }
    Real* const to_real = as<Real>(state.real);
    Real* const to_imag = as<Real>(state.imag);
    for (std::size_t r = 0; r < kRowsOfBlock; ++r) {
      const std::size_t offset = offsets_[row + r];
      if (is_one_piece) {
        const std::size_t at = base[column] + offset;
        for (std::size_t v = 0; v < kRegistersOfBlock; ++v) {
          __builtin_memcpy(to_real + at + v * kLanes, &real[r][v], sizeof(Lanes));
          __builtin_memcpy(to_imag + at + v * kLanes, &imag[r][v], sizeof(Lanes));
        }
        continue;
      }
      for (std::size_t c = 0; c < wanted; ++c) {
        const int lane = static_cast<int>(c % kLanes);
        to_real[base[column + c] + offset] = real[r][c / kLanes][lane];
        to_imag[base[column + c] + offset] = imag[r][c / kLanes][lane];
      }
    }
  }

  const std::size_t targets_, size_, columns_;
  const std::uint64_t value_;
  const double* const entries_;
  const bool is_adjoint_;
  std::uint8_t others_[64];
  std::size_t n_others_ = 0;
  std::size_t* offsets_;
  Real* real_;  // of the panel, [size_][columns_]
  Real* imag_;
  Real* rows_;  // of the matrix: [size_][kRowsOfBlock][2]
};

std::size_t wide_matrix_bytes(std::size_t targets) {
  const std::size_t size = std::size_t{1} << targets;
  const std::size_t numbers = 2 * size * (columns_of_panel(targets) + kRowsOfBlock);
  return size * sizeof(std::size_t) + numbers * sizeof(Real);
}

void apply_wide_matrix(std::size_t qubits, const std::uint8_t* bits, std::size_t targets,
                       std::uint64_t mask, std::uint64_t value, const double* entries,
                       bool is_adjoint, const Amplitudes& state, std::size_t first,
                       std::size_t count, void* memory) {
  WideMatrix(qubits, bits, targets, mask, value, entries, is_adjoint, memory)
      .apply(state, first, count);
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
