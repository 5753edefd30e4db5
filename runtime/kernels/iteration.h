// kernels/iteration.h: apply and differentiate the operations of one iteration at its
// parameters. Compiled for one instruction set; see kernels/lanes.h.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// Returns the bits of an operation on pairs, split for the layout.
PairBits pair_bits(const Operation& operation, const Layout& layout) {
  return {bits_of(operation.flips, layout), bits_of(operation.mask, layout),
          bits_of(operation.value, layout)};
}

// Return the sum over lanes for a single row, and the lanes themselves if they are
// rows. The second argument only selects the type of the result.
inline double lane_sum(const Wide& v, double) { return sum(v); }
inline Wide lane_sum(const Wide& v, Wide) { return v; }

// Return element `index` of an array: one number, or one number for each lane if rows
// are in lanes. The last argument only selects the type of the result.
inline double numbers_at(void* numbers, std::size_t index, double) {
  return as<Real>(numbers)[index];
}
inline Wide numbers_at(void* numbers, std::size_t index, Wide) {
  return widened(*at(numbers, index));
}

// Applies and differentiates the operations of one iteration at its parameters. A sweep
// makes one object, and calls `prepare` for each iteration. Number is a double for a
// single row, and Wide if rows are in lanes. If kMoves, states have tangents, and an
// Entry of a matrix is a dual number.
template <typename Number, bool kMoves>
class Iteration {
  template <bool kIsMoving, typename N>
  struct EntryOf {
    using Type = N;
  };
  template <typename N>
  struct EntryOf<true, N> {
    using Type = Moving<N>;
  };

 public:
  using Entry = EntryOf<kMoves, Number>::Type;

  // Whether operations may be of kind kPairsThenFlip, which only tiles have.
  static constexpr bool kMerges = !kMoves && sizeof(Number) == sizeof(double);

  Iteration(const Layout& layout, const Scratch& scratch)
      : layout_(layout), scratch_(scratch), size_(registers_of(layout)) {}

  // Computes the matrices of an iteration, unless the scratch memory contains them
  // already.
  void prepare(const Segment& segment, std::size_t iteration) {
    segment_ = &segment;
    const Program& program = *segment.program;
    const std::size_t before = iteration * program.parameters;
    parameters_ = segment.parameters + before;
    direction_ = segment.direction == nullptr ? nullptr : segment.direction + before;
    // The backward pass begins with the iteration whose matrices the forward pass
    // computed last.
    Prepared& prepared = *scratch_.prepared;
    if (prepared.operations == program.operations &&
        prepared.parameters == parameters_ && prepared.stride == segment.stride) {
      return;
    }
    prepared = {program.operations, parameters_, segment.stride};
    fill_angles(program);
    Matrix2<Entry>* const matrices = as<Matrix2<Entry>>(scratch_.matrices);
    for (std::size_t i = 0; i < program.size; ++i) {
      const Operation& operation = program.operations[i];
      if (operation.kind != Operation::Kind::kPairs &&
          operation.kind != Operation::Kind::kPairsThenFlip) {
        continue;
      }
      Matrix2<Entry> m = {{Entry{one()}, Entry{}, Entry{}, Entry{one()}}, {}};
      for (std::size_t f = operation.factor; f < operation.factor + operation.factors;
           ++f) {
        const auto [c, s] = turn(f);
        multiply(m, program.factors[f], c, s);
      }
      matrices[i] = m;
    }
  }

  // Applies operation i, or its adjoint, to a state.
  void apply(std::size_t i, bool is_adjoint, const Amplitudes& state) const {
    const Operation& operation = segment_->program->operations[i];
    if constexpr (kMerges) {
      if (operation.kind == Operation::Kind::kPairsThenFlip)
        return apply_then_flip(operation, matrix(i), state);
    }
    if (!acts(operation)) return;
    switch (operation.kind) {
      case Operation::Kind::kPairs: {
        const Matrix2<Entry>& m = matrix(i);
        return apply_pairs(operation.form, state, size_, pair_bits(operation, layout_),
                           as_lanes(is_adjoint ? adjoint_of(m) : m));
      }
      case Operation::Kind::kPairsThenFlip:
        return;  // see above
      case Operation::Kind::kPauliRotation: {
        const Lanes s = as_lanes(sine(operation.factor));
        return for_flips<RotateWord>(
            bits_of(operation.flips, layout_).low, state, size_, word_of(operation),
            as_lanes(cosine(operation.factor)), is_adjoint ? -s : s);
      }
      case Operation::Kind::kMatrix:
        return apply_dense(operation, is_adjoint != operation.is_adjoint, state);
      case Operation::Kind::kState:
        // The adjoint of a preparation has nothing to restore.
        if (!is_adjoint) prepare_state(operation, parameters_, segment_->stride, state);
        return;
      case Operation::Kind::kDiagonal:
        return;  // see states/large_operations.h
    }
  }

  // Applies operation i, or its adjoint, to a state v with its tangent w: (v, w)
  // becomes (U v, U w + U' v).
  [[gnu::always_inline]] void apply(std::size_t i, bool is_adjoint,
                                    const Ket& ket) const {
    if constexpr (!kMoves) return apply(i, is_adjoint, ket.state);
    const Operation& operation = segment_->program->operations[i];
    const bool moves = direction_ != nullptr && has_parameters(i);
    if (operation.kind != Operation::Kind::kState) {
      apply(i, is_adjoint, ket.tangent);
    } else if (moves && !is_adjoint) {
      prepare_state(operation, direction_, segment_->direction_stride, ket.tangent);
    }
    if constexpr (kMoves) {
      if (moves && operation.kind == Operation::Kind::kPairs) {
        const Matrix2<Entry>& m = matrix(i);
        add_pairs(ket.state, ket.tangent, size_, pair_bits(operation, layout_),
                  dots_as_lanes(is_adjoint ? adjoint_of(m) : m));
      }
    }
    apply(i, is_adjoint, ket.state);
    if (moves && operation.kind == Operation::Kind::kPauliRotation) {
      const Lanes by = as_lanes(angle_dot(operation.factor));
      for_flips<AddWord>(bits_of(operation.flips, layout_).low, ket.tangent, ket.state,
                         size_, word_of(operation).times_minus_i(),
                         is_adjoint ? -by : by);
    }
  }

  // Calls add(slot, derivative) with the derivatives of 2 Re <bra|ket> with respect to
  // the parameters of operation i, which has been applied to both. The tangent of a bra
  // follows it.
  template <typename Add>
  void derivatives(std::size_t i, const Amplitudes* bra, const Ket& ket,
                   Add&& add) const {
    const Program& program = *segment_->program;
    const Operation& operation = program.operations[i];
    if (operation.kind == Operation::Kind::kState) {
      return by_amplitudes(operation, bra, add);
    }
    const Factor* const factors = program.factors;
    if (operation.kind == Operation::Kind::kPauliRotation) {
      const auto found =
          of_both(bra, ket, [&](const Amplitudes& b, const Amplitudes& k) {
            const WideComplex of_word = for_flips<WordOverlap>(
                bits_of(operation.flips, layout_).low, b, k, size_, word_of(operation));
            return Bloch<Number>{lane_sum(of_word.imag, Number{}), {}, {}, {}};
          });
      const Factor& factor = factors[operation.factor];
      add(factor.slot, 2.0 * factor.scale * found.one);
      return;
    }
    Bloch<Entry> n = of_both(bra, ket, [&](const Amplitudes& b, const Amplitudes& k) {
      const Overlap found = overlap(b, k, size_, pair_bits(operation, layout_));
      return Bloch<Number>{lane_sum(found.one, Number{}), lane_sum(found.x, Number{}),
                           lane_sum(found.y, Number{}), lane_sum(found.z, Number{})};
    });
    for (std::size_t f = operation.factor + operation.factors;
         f-- > operation.factor;) {
      const auto [c, s] = turn(f);
      const Entry by = derivative(n, factors[f], c, s);
      if (factors[f].kind != Factor::Kind::kFixed) add(factors[f].slot, by);
    }
  }

  // Returns whether operation i has parameters to differentiate.
  bool has_parameters(std::size_t i) const {
    const Program& program = *segment_->program;
    const Operation& operation = program.operations[i];
    if (operation.kind == Operation::Kind::kState) return !operation.is_constant;
    if (operation.factors == 0 || !acts(operation)) return false;
    for (std::size_t f = operation.factor; f < operation.factor + operation.factors;
         ++f) {
      if (program.factors[f].kind != Factor::Kind::kFixed) return true;
    }
    return false;
  }

 private:
  static Number one() { return Number{} + 1.0; }
  Number cosine(std::size_t f) const { return as<Number>(scratch_.cosines)[f]; }
  Number sine(std::size_t f) const { return as<Number>(scratch_.sines)[f]; }

  // The cosine and the sine of a factor's angle, with their tangents.
  struct Turn {
    Entry cosine, sine;
  };
  Turn turn(std::size_t f) const {
    const Number c = cosine(f), s = sine(f);
    if constexpr (kMoves) {
      const Number dot = angle_dot(f);
      return {{c, -(s * dot)}, {s, c * dot}};
    } else {
      return {c, s};
    }
  }
  Number angle_dot(std::size_t f) const {
    const Factor& factor = segment_->program->factors[f];
    if (direction_ == nullptr || factor.kind == Factor::Kind::kFixed) return Number{};
    return factor.scale *
           row_of(direction_ + factor.slot, segment_->direction_stride, Number{});
  }

  const Matrix2<Entry>& matrix(std::size_t i) const {
    return as<Matrix2<Entry>>(scratch_.matrices)[i];
  }

  // Evaluates a bilinear function of bra and ket, with its tangent.
  template <typename Read>
  static Bloch<Entry> of_both(const Amplitudes* bra, const Ket& ket, Read&& read) {
    const Bloch<Number> n = read(bra[0], ket.state);
    if constexpr (kMoves) {
      const Bloch<Number> a = read(bra[1], ket.state), b = read(bra[0], ket.tangent);
      return {
          {n.one, a.one + b.one}, {n.x, a.x + b.x}, {n.y, a.y + b.y}, {n.z, a.z + b.z}};
    } else {
      return n;
    }
  }

  // Applies a matrix to all pairs of a wire, and the CNOT after it. Not inlined, so
  // that `apply` stays small: small circuits, which have no such operation, took 3 %
  // longer.
  [[gnu::noinline]] void apply_then_flip(const Operation& operation,
                                         const Matrix2<Entry>& matrix,
                                         const Amplitudes& state) const {
    const Bits flips = bits_of(operation.flips, layout_);
    const PairBits pairs{flips, flips, {}};
    const Matrix2<Lanes> m = as_lanes(matrix), flipped = with_rows_exchanged(m);
    const std::uint64_t control = operation.mask & ~operation.flips;
    if (!acts(operation) || control == 0) {
      return apply_pairs(operation.form, state, size_, pairs,
                         acts(operation) ? flipped : m);
    }
    apply_by_control(operation.form, state, size_, pairs, m, flipped,
                     bits_of(control, layout_), bits_of(operation.value, layout_));
  }

  // Returns whether the controls outside of the tile have the required values.
  bool acts(const Operation& operation) const {
    return (layout_.outside & operation.outer_mask) == operation.outer_value;
  }

  Word word_of(const Operation& operation) const {
    Word word(operation, layout_);
    word.real *= parity_sign(layout_.outside & operation.outer_signs);
    word.imag *= parity_sign(layout_.outside & operation.outer_signs);
    return word;
  }

  Number parameter(std::size_t slot) const {
    return row_of(parameters_ + slot, segment_->stride, Number{});
  }
  static double row_of(const double* number, std::size_t, double) { return *number; }
  static Wide row_of(const double* number, std::size_t stride, Wide) {
    Wide rows;
    for (int lane = 0; lane < kLanes; ++lane) {
      rows[lane] = number[static_cast<std::size_t>(lane) * stride];
    }
    return rows;
  }

  // Computes the angles of all factors, with their sines and cosines.
  void fill_angles(const Program& program) {
    Number* const angles = as<Number>(scratch_.angles);
    for (std::size_t f = 0; f < program.n_factors; ++f) {
      const Factor& factor = program.factors[f];
      angles[f] =
          factor.scale *
          (factor.kind == Factor::Kind::kFixed ? one() : parameter(factor.slot));
    }
    const std::size_t registers =
        (program.n_factors * sizeof(Number) + sizeof(Wide) - 1) / sizeof(Wide);
    for (std::size_t i = 0; i < registers; ++i) {
      const SineCosine found = sine_cosine(as<Wide>(scratch_.angles)[i]);
      as<Wide>(scratch_.sines)[i] = found.sine;
      as<Wide>(scratch_.cosines)[i] = found.cosine;
    }
  }

  // Applies a matrix operation.
  void apply_dense(const Operation& operation, bool is_adjoint,
                   const Amplitudes& state) const {
    if (operation.is_constant) {
      const double* const entries = segment_->program->constants + operation.entries;
      return apply_any_matrix<double>(
          layout_, {operation.bits, operation.targets, entries, is_adjoint},
          operation.mask, operation.value, state, scratch_.gathered);
    }
    // The gathered amplitudes are followed by memory for the entries.
    const std::size_t dimension = std::size_t{1} << operation.targets;
    Number* const entries =
        as<Number>(scratch_.gathered) + 2 * dimension * (sizeof(Wide) / sizeof(Number));
    for (std::size_t i = 0; i < 2 * dimension * dimension; ++i) {
      entries[i] = parameter(operation.entries + i);
    }
    apply_any_matrix<Number>(layout_,
                             {operation.bits, operation.targets, entries, is_adjoint},
                             operation.mask, operation.value, state, scratch_.gathered);
  }

  // Returns the index in the state of a prepared amplitude.
  static std::size_t index_of(const Operation& operation, std::size_t amplitude) {
    std::size_t index = 0;
    for (std::size_t t = 0; t < operation.targets; ++t) {
      index |= ((amplitude >> (operation.targets - 1 - t)) & 1) << operation.bits[t];
    }
    return index;
  }

  // Adds the derivatives with respect to initial amplitudes. The measured value is
  // quadratic in them: Re <bra|ket>.
  template <typename Add>
  static void by_amplitudes(const Operation& operation, const Amplitudes* bra,
                            Add&& add) {
    const auto twice = [&](std::size_t index, auto part) {
      const Number value = 2.0 * numbers_at(bra[0].*part, index, Number{});
      if constexpr (kMoves) {
        return Entry{value, 2.0 * numbers_at(bra[1].*part, index, Number{})};
      } else {
        return value;
      }
    };
    for (std::size_t i = 0; i < std::size_t{1} << operation.targets; ++i) {
      const std::size_t index = index_of(operation, i);
      if (operation.is_real) {
        add(operation.entries + i, twice(index, &Amplitudes::real));
        continue;
      }
      add(operation.entries + 2 * i, twice(index, &Amplitudes::real));
      add(operation.entries + 2 * i + 1, twice(index, &Amplitudes::imag));
    }
  }

  // Replaces the zero state by prepared amplitudes.
  void prepare_state(const Operation& operation, const double* parameters,
                     std::size_t stride_of_parameters, const Amplitudes& state) const {
    const std::size_t lanes = layout_.rows_in_lanes ? kLanes : 1;
    Real* const real = as<Real>(state.real);
    Real* const imag = as<Real>(state.imag);
    // Clears |0...0>.
    for (std::size_t row = 0; row < lanes; ++row) real[row] = imag[row] = 0;
    const double* const entries =
        operation.is_constant ? segment_->program->constants : parameters;
    const std::size_t stride = operation.is_constant ? 0 : stride_of_parameters;
    for (std::size_t i = 0; i < std::size_t{1} << operation.targets; ++i) {
      const std::size_t index = index_of(operation, i);
      for (std::size_t row = 0; row < lanes; ++row) {
        const double* const of_row = entries + row * stride + operation.entries;
        const double* const entry = of_row + (operation.is_real ? i : 2 * i);
        real[index * lanes + row] = narrow(entry[0]);
        imag[index * lanes + row] = operation.is_real ? 0 : narrow(entry[1]);
      }
    }
  }

  const Layout& layout_;
  const Scratch& scratch_;
  const std::size_t size_;
  const Segment* segment_ = nullptr;
  const double* parameters_ = nullptr;
  const double* direction_ = nullptr;
};

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
