// threads/openmp_limit.cc: limit the OpenMP threads of a plugin for small circuits and
// batches.
#include "threads/openmp_limit.h"

#include <dlfcn.h>

#include <algorithm>

namespace bellhop {
namespace {

// Circuits of up to this many qubits run on one thread. Their state takes 16 KiB, which
// fits into the first-level cache of a core.
constexpr std::size_t kQubitsOnOneThread = 10;

}  // namespace

OpenMpControl OpenMpControl::find_in(void* library) {
  return {reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads")),
          reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"))};
}

OpenMpLimit::OpenMpLimit(const OpenMpControl& control, std::size_t qubits,
                         std::size_t teams) {
  const bool is_small = qubits <= kQubitsOnOneThread;
  if ((!is_small && teams <= 1) || control.get_max_threads == nullptr ||
      control.set_num_threads == nullptr) {
    return;
  }
  threads_ = control.get_max_threads();
  if (threads_ == 1) return;
  const int share = is_small ? 1 : threads_ / static_cast<int>(teams);
  control.set_num_threads(std::max(share, 1));
  restore_ = control.set_num_threads;
}

OpenMpLimit::~OpenMpLimit() {
  if (restore_ != nullptr) restore_(threads_);
}

}  // namespace bellhop
