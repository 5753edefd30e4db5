// interpreter/garbage_collector.h: Python's collections of garbage.
#pragma once

#include <cstdint>

namespace bellhop {

// Says that this thread begins a collection.
void notify_collection_begin();

// The number of the collection under way.
uint64_t collection_number();

// Collects all garbage that there is now, with the GIL. A collection that another
// thread has under way may have begun before, so it waits for that one first; but not
// for ever, since one may wait for the caller. What is raised is dropped.
void collect_garbage();

}  // namespace bellhop
