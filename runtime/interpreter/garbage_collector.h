// interpreter/garbage_collector.h: count and start garbage collections.
#pragma once

#include <cstdint>

namespace bellhop {

// Records that this thread starts a garbage collection.
void notify_collection_begin();

// Returns how many garbage collections have started. While a collection runs, this
// identifies it.
uint64_t collection_number();

// Runs a full garbage collection. Needs the GIL. A collection that another thread is
// running may have started before the garbage arose, so this function waits for it and
// then starts one, but gives up after 10 s, because the other thread may be waiting for
// the caller. Drops exceptions that the collector raises.
void collect_garbage();

}  // namespace bellhop
