// kernels/lanes.h: SIMD registers, and elementary functions of them.
//
// Compiled once for each instruction set, in a separate namespace. The including file
// defines BELLHOP_REAL, the type of a number, and BELLHOP_LANES, how many numbers a
// register holds. Neither this file nor its includers may use inline functions of the
// C++ library: the linker keeps one copy of such a function, which may be compiled for
// instructions that the processor lacks.
//
// A gate on few qubits takes about 20 ns, and compilers stop inlining in files with
// many template instances, so functions that run for each gate are always_inline.
#ifndef BELLHOP_LANES
#error "kernels/lanes.h is for the files of one instruction set"
#endif

namespace bellhop::engine::BELLHOP_INSTRUCTION_SET {
namespace {

using Real = BELLHOP_REAL;
constexpr bool kIsDouble = sizeof(Real) == sizeof(double);
constexpr int kLanes = BELLHOP_LANES;
constexpr int kLaneBits = kLanes == 16 ? 4 : kLanes == 8 ? 3 : kLanes == 4 ? 2 : 1;

template <bool kOfDouble>
struct BitsOfReal {
  using Type = long long;
};
template <>
struct BitsOfReal<false> {
  using Type = int;
};
using RealBits = BitsOfReal<kIsDouble>::Type;

typedef Real Lanes __attribute__((vector_size(kLanes * sizeof(Real))));
typedef RealBits LaneBits __attribute__((vector_size(kLanes * sizeof(Real))));
// As many doubles as a register has lanes, in one or two registers: for parameters,
// sums and derivatives.
typedef double Wide __attribute__((vector_size(kLanes * 8)));
typedef long long WideBits __attribute__((vector_size(kLanes * 8)));

// Returns a register with the same number in all lanes.
inline Lanes broadcast(double value) { return static_cast<Real>(value) - Lanes{}; }

// Convert between doubles and the stored precision.
inline Real narrow(double v) { return static_cast<Real>(v); }
inline Lanes narrow(Wide v) { return __builtin_convertvector(v, Lanes); }
inline Wide widened(Lanes v) { return __builtin_convertvector(v, Wide); }

// Returns 0, 1, 2, ...: the index of each lane.
inline LaneBits lane_numbers() {
  LaneBits numbers{};
  for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = lane;
  return numbers;
}

// Permutes lanes: lane l of the result is lane l ^ kFlips of `v`.
template <int kFlips>
inline Lanes exchanged(Lanes v) {
  if constexpr (kFlips == 0) {
    return v;
  } else {
#if BELLHOP_LANES == 16
    return __builtin_shufflevector(v, v, 0 ^ kFlips, 1 ^ kFlips, 2 ^ kFlips, 3 ^ kFlips,
                                   4 ^ kFlips, 5 ^ kFlips, 6 ^ kFlips, 7 ^ kFlips,
                                   8 ^ kFlips, 9 ^ kFlips, 10 ^ kFlips, 11 ^ kFlips,
                                   12 ^ kFlips, 13 ^ kFlips, 14 ^ kFlips, 15 ^ kFlips);
#elif BELLHOP_LANES == 8
    return __builtin_shufflevector(v, v, 0 ^ kFlips, 1 ^ kFlips, 2 ^ kFlips, 3 ^ kFlips,
                                   4 ^ kFlips, 5 ^ kFlips, 6 ^ kFlips, 7 ^ kFlips);
#elif BELLHOP_LANES == 4
    return __builtin_shufflevector(v, v, 0 ^ kFlips, 1 ^ kFlips, 2 ^ kFlips,
                                   3 ^ kFlips);
#else
    return __builtin_shufflevector(v, v, 0 ^ kFlips, 1 ^ kFlips);
#endif
  }
}

// Returns the sum over all lanes.
inline double sum(Wide v) {
  double total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
  return total;
}

struct SineCosine {
  Wide sine, cosine;
};

// Computes sine and cosine with the C library. Not inlined, since the compiler would
// call it for every angle.
[[gnu::noinline, gnu::cold]] SineCosine of_any_angle(Wide angle) {
  SineCosine out;
  for (int lane = 0; lane < kLanes; ++lane) {
    out.sine[lane] = __builtin_sin(angle[lane]);
    out.cosine[lane] = __builtin_cos(angle[lane]);
  }
  return out;
}

// Computes sine and cosine to about 1 ulp. The angle is reduced to |y| <= pi / 4 by a
// multiple of pi / 2 that is subtracted in three parts, whose products with the
// multiple are exact for angles up to kExact. The polynomials are from the Cephes
// library (S. Moshier, sin.c).
[[gnu::always_inline]] inline SineCosine sine_cosine(Wide angle) {
  constexpr double kExact = 1 << 20;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2**52: its ulp is 1
  const Wide shifted = angle * 0.63661977236758134308 + kRound;
  const Wide turns = shifted - kRound;
  const WideBits quarter = (WideBits)shifted;
  Wide y = angle - turns * 1.57079625129699707031;
  y = y - turns * 7.54978941586159635336e-8;
  y = y - turns * 5.39030285815811905290e-15;
  const Wide z = y * y;
  Wide s = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8;
  s = s * z + 2.75573136213857245213e-6;
  s = s * z - 1.98412698295895385996e-4;
  s = s * z + 8.33333333332211858878e-3;
  s = s * z - 1.66666666666666307295e-1;
  s = s * z * y + y;
  Wide c = 2.08757008419747316778e-9 - 1.13585365213876817300e-11 * z;
  c = c * z - 2.75573141792967388112e-7;
  c = c * z + 2.48015872888517045348e-5;
  c = c * z - 1.38888888888730564116e-3;
  c = c * z + 4.16666666666665929218e-2;
  c = c * z * z - 0.5 * z + 1.0;
  const WideBits swaps = (quarter & 1) != 0;
  const WideBits sine_negative = (quarter & 2) != 0;
  const WideBits cosine_negative = ((quarter + 1) & 2) != 0;
  SineCosine out = {swaps ? c : s, swaps ? s : c};
  out.sine = sine_negative ? -out.sine : out.sine;
  out.cosine = cosine_negative ? -out.cosine : out.cosine;
  bool is_exact = true;  // whether all angles are below kExact, and none is NaN
  for (int lane = 0; lane < kLanes; ++lane) {
    is_exact &= angle[lane] < kExact && angle[lane] > -kExact;
  }
  return is_exact ? out : of_any_angle(angle);
}

}  // namespace
}  // namespace bellhop::engine::BELLHOP_INSTRUCTION_SET
