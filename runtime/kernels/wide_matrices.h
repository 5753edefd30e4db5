// kernels/wide_matrices.h: dense matrices on many qubits, as products with panels of
// the state. For one instruction set; see kernels/lanes.h.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// A *column* is a vector of amplitudes that the matrix multiplies: all values of its
// qubits, at fixed values of all other qubits. A panel has kColumnsOfBlock adjacent
// columns, and a block of the product has kRowsOfBlock rows: their sums, real and
// imaginary parts, fit into the registers.
constexpr std::size_t kRegistersOfBlock = 2;
constexpr std::size_t kRowsOfBlock = kLanes * sizeof(Real) == 64 ? 4 : 2;
constexpr std::size_t kColumnsOfBlock = kRegistersOfBlock * kLanes;
// Numbers of a panel's real part, so that a panel stays in the second cache.
constexpr std::size_t kNumbersOfPanel = std::size_t{1} << 14;

// Returns how many columns a panel has for a matrix on `targets` qubits.
constexpr std::size_t columns_of_panel(std::size_t targets) {
  std::size_t columns = 4 * kColumnsOfBlock;
  while (columns > kColumnsOfBlock && (columns << targets) > kNumbersOfPanel) {
    columns /= 2;
  }
  return columns;
}

// A row of a panel's block: kRegistersOfBlock registers of real parts, and of imaginary
// ones.
struct RegistersOfBlock {
  Lanes real_0, real_1, imag_0, imag_1;
};

// A row of the product's block, while it is summed.
struct SumsOfRow {
  Lanes real_0, real_1, imag_0, imag_1;

  // Adds a row times an entry of the matrix. Each statement is one fused instruction.
  [[gnu::always_inline]] void add(const Real* entry, const RegistersOfBlock& row) {
    const Lanes a = entry[0] - Lanes{}, b = entry[1] - Lanes{};
    real_0 += a * row.real_0;
    real_1 += a * row.real_1;
    imag_0 += a * row.imag_0;
    imag_1 += a * row.imag_1;
    real_0 -= b * row.imag_0;
    real_1 -= b * row.imag_1;
    imag_0 += b * row.real_0;
    imag_1 += b * row.real_1;
  }

  void write(Real* real, Real* imag) const {
    __builtin_memcpy(real, &real_0, sizeof(Lanes));
    __builtin_memcpy(real + kLanes, &real_1, sizeof(Lanes));
    __builtin_memcpy(imag, &imag_0, sizeof(Lanes));
    __builtin_memcpy(imag + kLanes, &imag_1, sizeof(Lanes));
  }
};

// A matrix on many qubits, with the memory for its products. See
// Sweeps::apply_wide_matrix for the arguments.
class WideMatrix {
 public:
  // `memory` has wide_matrix_bytes(targets) bytes, which the caller owns.
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

  // Multiplies the columns from `first` up to `first + count`, in place. The state has
  // one column for each value of the other qubits.
  void apply(const Amplitudes& state, std::size_t first, std::size_t count) {
    for (std::size_t done = 0; done < count; done += columns_) {
      const std::size_t n = count - done < columns_ ? count - done : columns_;
      apply_to_panel(state, first + done, n);
    }
  }

 private:
  // Multiplies `n` columns, which fit into a panel: copies them into the panel, and
  // writes the product back.
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

  // Returns the index in the state of the first amplitude of a column.
  std::size_t base_of(std::size_t column) const {
    std::size_t index = value_;
    for (std::size_t q = 0; q < n_others_; ++q)
      index |= ((column >> q) & 1) << others_[q];
    return index;
  }

  // Copies the kRowsOfBlock rows of the matrix from `first` on, in the order in which
  // multiply_block reads them.
  void pack_rows(std::size_t first) {
    for (std::size_t j = 0; j < size_; ++j) {
      for (std::size_t r = 0; r < kRowsOfBlock; ++r) {
        const std::size_t i = first + r;
        const std::size_t place = is_adjoint_ ? j << targets_ | i : i << targets_ | j;
        Real* const to = rows_ + 2 * (j * kRowsOfBlock + r);
        to[0] = narrow(entries_[2 * place]);
        to[1] =
            narrow(is_adjoint_ ? -entries_[2 * place + 1] : entries_[2 * place + 1]);
      }
    }
  }

  // Multiplies the packed rows, from row `row` on, with the columns of the panel from
  // `column` on, and writes the first `wanted` columns of the product to the state.
  // `base` has the index of each column's first amplitude; `is_one_piece` is whether
  // these are consecutive.
  void multiply_block(const Amplitudes& state, std::size_t row, std::size_t column,
                      const std::size_t* base, std::size_t wanted,
                      bool is_one_piece) const {
    // Separate variables for the sums: the compiler would leave an array in memory.
    SumsOfRow sums_0{}, sums_1{}, sums_2{}, sums_3{};
    for (std::size_t j = 0; j < size_; ++j) {
      const Lanes* const real = as<Lanes>(real_ + j * columns_ + column);
      const Lanes* const imag = as<Lanes>(imag_ + j * columns_ + column);
      const RegistersOfBlock panel{real[0], real[1], imag[0], imag[1]};
      const Real* const entry = rows_ + 2 * j * kRowsOfBlock;
      sums_0.add(entry, panel);
      sums_1.add(entry + 2, panel);
      if constexpr (kRowsOfBlock == 4) {
        sums_2.add(entry + 4, panel);
        sums_3.add(entry + 6, panel);
      }
    }
    const SumsOfRow sums[] = {sums_0, sums_1, sums_2, sums_3};
    Real* const to_real = as<Real>(state.real);
    Real* const to_imag = as<Real>(state.imag);
    for (std::size_t r = 0; r < kRowsOfBlock; ++r) {
      const std::size_t offset = offsets_[row + r];
      Real real[kColumnsOfBlock], imag[kColumnsOfBlock];
      sums[r].write(real, imag);
      if (is_one_piece) {
        __builtin_memcpy(to_real + base[column] + offset, real, sizeof(real));
        __builtin_memcpy(to_imag + base[column] + offset, imag, sizeof(imag));
        continue;
      }
      for (std::size_t c = 0; c < wanted; ++c) {
        to_real[base[column + c] + offset] = real[c];
        to_imag[base[column + c] + offset] = imag[c];
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

void apply_wide_matrix(std::size_t qubits, const std::uint8_t* bits,
                       std::size_t targets, std::uint64_t mask, std::uint64_t value,
                       const double* entries, bool is_adjoint, const Amplitudes& state,
                       std::size_t first, std::size_t count, void* memory) {
  WideMatrix(qubits, bits, targets, mask, value, entries, is_adjoint, memory)
      .apply(state, first, count);
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
