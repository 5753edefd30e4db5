// kernels/kernels.cc: choose the kernels for this processor's instruction set.
#include "kernels/kernels.h"

namespace bellhop::engine {

#define BELLHOP_SWEEPS(instruction_set) \
  namespace instruction_set {           \
  extern const Sweeps kSweeps;          \
  }                                     \
  namespace instruction_set##_single {  \
    extern const Sweeps kSweeps;        \
  }
BELLHOP_SWEEPS(portable)
#if BELLHOP_ENGINE_X86
BELLHOP_SWEEPS(avx2)
BELLHOP_SWEEPS(avx512)
#endif

namespace {

struct BothPrecisions {
  const Sweeps& in_double;
  const Sweeps& in_single;
};

BothPrecisions fastest() {
#if BELLHOP_ENGINE_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    return {avx512::kSweeps, avx512_single::kSweeps};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {avx2::kSweeps, avx2_single::kSweeps};
  }
#endif
  return {portable::kSweeps, portable_single::kSweeps};
}

}  // namespace

const Sweeps& sweeps(Precision precision) {
  static const BothPrecisions best = fastest();
  return precision == Precision::kSingle ? best.in_single : best.in_double;
}

}  // namespace bellhop::engine
