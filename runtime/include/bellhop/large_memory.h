// bellhop/large_memory.h: large results without a page fault for every 4 KiB.
//
// JAX allocates the results of each call anew. Where that memory comes from the kernel,
// its pages are made one by one as they are written, which takes as long as the copy.
#pragma once

#include <span>

#include "bellhop/numpy_arrays.h"

namespace bellhop {

// Asks for huge pages for results that are about to be written, from the size on from
// which NumPy asks the same for its arrays.
void prefer_huge_pages(std::span<const BufferView> results);

// Brings the allocator, once, where the first array of 32 MB that is freed would bring
// it: it keeps up to 64 MB, instead of giving 8 MB back to the kernel after each call.
void keep_freed_memory();

}  // namespace bellhop
