// runtime/handlers/large_memory.cc: advice to the kernel and to the allocator, where
// there is a way to give it.
#include "bellhop/large_memory.h"

#include <cstdint>
#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace bellhop {

void prefer_huge_pages([[maybe_unused]] std::span<const BufferView> results) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kWorthwhile = size_t{4} << 20;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const BufferView& result : results) {
    if (result.rank == 0) continue;
    const size_t bytes = memory_bytes(result);
    if (bytes < kWorthwhile) continue;
    const auto data = reinterpret_cast<uintptr_t>(result.data);
    const uintptr_t begin = (data + page - 1) & ~(page - 1);
    const uintptr_t end = (data + bytes) & ~(page - 1);
    // Advice only: a kernel without huge pages says no, and nothing is lost.
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
}

void keep_freed_memory() {
#ifdef __GLIBC__
  // Its threshold follows the largest block that was freed, up to 32 MB with what it
  // adds to a block. The memory is never touched.
  constexpr size_t kLargestFollowed = (size_t{32} << 20) - (size_t{64} << 10);
  void* volatile block = std::malloc(kLargestFollowed);
  std::free(block);
#endif
}

}  // namespace bellhop
