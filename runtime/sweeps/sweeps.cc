// sweeps/sweeps.cc: which instruction set the engine uses.
#include "sweeps/sweeps.h"

namespace bellhop::engine {

namespace portable {
extern const Sweeps kSweeps;
}
#if BELLHOP_ENGINE_X86
namespace avx2 {
extern const Sweeps kSweeps;
}
namespace avx512 {
extern const Sweeps kSweeps;
}
#endif

const Sweeps& sweeps() {
#if BELLHOP_ENGINE_X86
  static const Sweeps& best = [&]() -> const Sweeps& {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
      return avx512::kSweeps;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      return avx2::kSweeps;
    }
    return portable::kSweeps;
  }();
  return best;
#else
  return portable::kSweeps;
#endif
}

}  // namespace bellhop::engine
