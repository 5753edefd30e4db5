// arrays/large_memory.cc: allocate and copy large arrays with few page faults.
#include "arrays/large_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace bellhop {

void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kWorthwhile = size_t{4} << 20;
  if (bytes < kWorthwhile) return;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (data + page - 1) & ~(page - 1);
  const uintptr_t end = (data + bytes) & ~(page - 1);
  // A kernel without huge pages rejects the advice, which is harmless.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

void* allocate_aligned(size_t bytes) {
  constexpr size_t kAlignment = 128;
  const size_t rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (memory != nullptr) prefer_huge_pages(memory, bytes);
  return memory;
}

void copy_bytes(void* to, const void* from, size_t bytes) {
#ifdef __SSE2__
  // Two arrays of this size fill the caches, so cached writes would be evicted before
  // they are read.
  constexpr size_t kStreamed = size_t{8} << 20;
  if (bytes >= kStreamed) {
    auto* out = static_cast<char*>(to);
    const auto* in = static_cast<const char*>(from);
    const size_t head = -reinterpret_cast<uintptr_t>(out) & 15;
    std::memcpy(out, in, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
      const auto* source = reinterpret_cast<const __m128i*>(in + i);
      auto* target = reinterpret_cast<__m128i*>(out + i);
      for (int k = 0; k < 4; ++k) {
        _mm_stream_si128(target + k, _mm_loadu_si128(source + k));
      }
    }
    _mm_sfence();
    std::memcpy(out + i, in + i, bytes - i);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  // glibc's threshold follows the size of the largest block that was freed, up to 32 MB
  // with the block's header. The memory is never touched.
  constexpr size_t kLargestFollowed = (size_t{32} << 20) - (size_t{64} << 10);
  void* volatile block = std::malloc(kLargestFollowed);
  std::free(block);
#endif
}

}  // namespace bellhop
