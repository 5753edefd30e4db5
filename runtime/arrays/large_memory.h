// arrays/large_memory.h: large arrays without a page fault for every 4 KiB, and their
// copies.
//
// JAX allocates the results of each call anew. Where that memory comes from the kernel,
// its pages are made one by one as they are written, which takes as long as the copy.
#pragma once

#include <cstddef>

namespace bellhop {

// Asks for huge pages for memory that is about to be written, from the size on from
// which NumPy asks the same for its arrays.
void prefer_huge_pages(void* memory, size_t bytes);

// Memory aligned as XLA's, for std::free; null where there is none left. Asks for huge
// pages likewise.
void* allocate_aligned(size_t bytes);

// std::memcpy, which from some size on does not bring what it writes into the caches
// first: the C library does so too, but from a size on that a virtual machine may give
// far too large.
void copy_bytes(void* to, const void* from, size_t bytes);

// Brings the allocator, once, where the first array of 32 MB that is freed would bring
// it: it keeps up to 64 MB, instead of giving 8 MB back to the kernel after each call.
void keep_freed_memory();

}  // namespace bellhop
