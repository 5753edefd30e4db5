// kernels/factors.h: matrices of operations at their parameters, and derivatives with
// respect to the parameters of their factors. Compiled for one instruction set; see
// kernels/lanes.h.
//
// A Number is a double for a single row, and Wide if rows are in lanes; or a Moving of
// one of these, which is a dual number: a value with its tangent.

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

// A dual number: a value with its tangent.
template <typename Number>
struct Moving {
  Number value{}, dot{};

  friend Moving operator-(Moving a) { return {-a.value, -a.dot}; }
  friend Moving operator+(Moving a, Moving b) {
    return {a.value + b.value, a.dot + b.dot};
  }
  friend Moving operator-(Moving a, Moving b) {
    return {a.value - b.value, a.dot - b.dot};
  }
  friend Moving operator*(Moving a, Moving b) {
    return {a.value * b.value, a.dot * b.value + a.value * b.dot};
  }
  friend Moving operator*(double a, Moving b) { return {a * b.value, a * b.dot}; }
};

// Convert a number, which all lanes share, or one number for each lane to a register of
// the stored precision. A matrix is converted entry by entry.
inline Lanes as_lanes(double v) { return broadcast(v); }
inline Lanes as_lanes(Wide v) { return narrow(v); }

template <typename Number>
inline Matrix2<Lanes> as_lanes(const Matrix2<Number>& m) {
  Matrix2<Lanes> out;
  for (int i = 0; i < 4; ++i) {
    out.real[i] = as_lanes(m.real[i]);
    out.imag[i] = as_lanes(m.imag[i]);
  }
  return out;
}

// Returns the values, or the tangents, of a matrix of dual numbers.
template <typename Number>
inline Matrix2<Number> part_of(const Matrix2<Moving<Number>>& m,
                               Number Moving<Number>::* part) {
  Matrix2<Number> out;
  for (int i = 0; i < 4; ++i) {
    out.real[i] = m.real[i].*part;
    out.imag[i] = m.imag[i].*part;
  }
  return out;
}

// Return the values of a matrix of dual numbers, and its tangents.
template <typename Number>
inline Matrix2<Lanes> as_lanes(const Matrix2<Moving<Number>>& m) {
  return as_lanes(part_of(m, &Moving<Number>::value));
}
template <typename Number>
inline Matrix2<Lanes> dots_as_lanes(const Matrix2<Moving<Number>>& m) {
  return as_lanes(part_of(m, &Moving<Number>::dot));
}

// Returns the conjugate transpose of a matrix.
template <typename Number>
inline Matrix2<Number> adjoint_of(const Matrix2<Number>& m) {
  return {{m.real[0], m.real[2], m.real[1], m.real[3]},
          {-m.imag[0], -m.imag[2], -m.imag[1], -m.imag[3]}};
}

// Multiplies a matrix in place, from the left, by the matrix of a factor. `c` and `s`
// are the cosine and the sine of the factor's angle; a fixed factor does not use them.
template <typename Number>
inline void multiply(Matrix2<Number>& m, const Factor& factor, Number c, Number s) {
  Matrix2<Number> out = m;
  for (int column = 0; column < 2; ++column) {
    const Number r0 = m.real[column], i0 = m.imag[column];
    const Number r1 = m.real[2 + column], i1 = m.imag[2 + column];
    Number &to_r0 = out.real[column], &to_i0 = out.imag[column];
    Number &to_r1 = out.real[2 + column], &to_i1 = out.imag[2 + column];
    switch (factor.kind) {
      case Factor::Kind::kX:
        to_r0 = c * r0 + s * i1;
        to_i0 = c * i0 - s * r1;
        to_r1 = c * r1 + s * i0;
        to_i1 = c * i1 - s * r0;
        break;
      case Factor::Kind::kY:
        to_r0 = c * r0 - s * r1;
        to_i0 = c * i0 - s * i1;
        to_r1 = s * r0 + c * r1;
        to_i1 = s * i0 + c * i1;
        break;
      case Factor::Kind::kZ:
        to_r0 = c * r0 + s * i0;
        to_i0 = c * i0 - s * r0;
        to_r1 = c * r1 - s * i1;
        to_i1 = c * i1 + s * r1;
        break;
      case Factor::Kind::kPhase:
        to_r0 = r0;
        to_i0 = i0;
        to_r1 = c * r1 - s * i1;
        to_i1 = c * i1 + s * r1;
        break;
      case Factor::Kind::kFixed: {
        const double *const a = factor.real, *const b = factor.imag;
        to_r0 = a[0] * r0 - b[0] * i0 + a[1] * r1 - b[1] * i1;
        to_i0 = a[0] * i0 + b[0] * r0 + a[1] * i1 + b[1] * r1;
        to_r1 = a[2] * r0 - b[2] * i0 + a[3] * r1 - b[3] * i1;
        to_i1 = a[2] * i0 + b[2] * r0 + a[3] * i1 + b[3] * r1;
        break;
      }
    }
  }
  m = out;
}

// The imaginary parts of tr(P N) for P the identity and the Pauli matrices, where N
// sums ket[b] conj(bra[a]) over pairs. The derivatives of an operation depend only on
// these. Undoing a factor U maps N to U^-1 N U, which rotates the vector (x, y, z).
template <typename Number>
struct Bloch {
  Number one, x, y, z;
};

// Rotates two components of a vector in place.
template <typename Number>
inline void rotate(Number& from, Number& to, Number cosine, Number sine) {
  const Number rotated = cosine * from + sine * to;
  to = cosine * to - sine * from;
  from = rotated;
}

// Returns the derivative with respect to the factor's parameter (zero for a fixed
// factor), and undoes the factor in `n`. `c` and `s` are the cosine and the sine of its
// angle.
template <typename Number>
inline Number derivative(Bloch<Number>& n, const Factor& factor, Number c, Number s) {
  // The cosine and sine of twice the angle, by which exp(-i phi P) rotates the vector.
  const Number cosine = c * c - s * s, sine = 2.0 * (c * s);
  Number by_angle{};
  switch (factor.kind) {
    case Factor::Kind::kX:
      by_angle = 2.0 * n.x;
      rotate(n.y, n.z, cosine, sine);
      break;
    case Factor::Kind::kY:
      by_angle = 2.0 * n.y;
      rotate(n.z, n.x, cosine, sine);
      break;
    case Factor::Kind::kZ:
      by_angle = 2.0 * n.z;
      rotate(n.x, n.y, cosine, sine);
      break;
    case Factor::Kind::kPhase:
      by_angle = n.z - n.one;
      rotate(n.x, n.y, c, s);
      break;
    case Factor::Kind::kFixed: {
      const double* const r = factor.bloch;
      const Bloch<Number> old = n;
      n.x = r[0] * old.x + r[3] * old.y + r[6] * old.z;
      n.y = r[1] * old.x + r[4] * old.y + r[7] * old.z;
      n.z = r[2] * old.x + r[5] * old.y + r[8] * old.z;
      break;
    }
  }
  return factor.scale * by_angle;
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
