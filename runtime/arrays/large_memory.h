// arrays/large_memory.h: allocate and copy large arrays with few page faults.
//
// JAX allocates the results of each call again. If that memory comes from the kernel,
// each 4 KiB page is created when it is first written, which takes as long as the copy.
#pragma once

#include <cstddef>

namespace bellhop {

// Advises the kernel to use huge pages for memory that is about to be written. Applies
// from the same size on as NumPy's advice for its arrays.
void prefer_huge_pages(void* memory, size_t bytes);

// Allocates memory with XLA's alignment, with advice for huge pages. The caller frees
// it with std::free. Returns null if memory is exhausted.
void* allocate_aligned(size_t bytes);

// Copies memory as std::memcpy does. Large copies write past the caches, since the data
// are not read soon. The C library does so too, but a virtual machine may report a
// cache size that makes its threshold far too large.
void copy_bytes(void* to, const void* from, size_t bytes);

// Raises glibc's allocator thresholds to their maximum once, as freeing a first array
// of 32 MB would. The allocator then keeps up to 64 MB, instead of returning 8 MB to
// the kernel after each call.
void keep_freed_memory();

}  // namespace bellhop
