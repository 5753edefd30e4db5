// ffi/tsan_annotations.h: declare to ThreadSanitizer the ordering that XLA guarantees.
//
// XLA is not instrumented, so ThreadSanitizer does not see how XLA's threads
// synchronise and would report false races. These annotations declare only the ordering
// that XLA guarantees. Data that handlers share in other ways needs synchronisation of
// its own. In builds without ThreadSanitizer the functions do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace bellhop {

// Orders memory accesses before `happens_before(key)` ahead of accesses after a later
// `happens_after(key)`.
#if defined(__SANITIZE_THREAD__)
constexpr bool kIsThreadSanitized = true;
inline void happens_before(const void* what) {
  __tsan_release(const_cast<void*>(what));
}
inline void happens_after(const void* what) { __tsan_acquire(const_cast<void*>(what)); }
#else
constexpr bool kIsThreadSanitized = false;
inline void happens_before(const void*) {}
inline void happens_after(const void*) {}
#endif

// Returns the key that orders the uses of a compiled call's state before its
// destruction. XLA creates the state before all uses, and destroys it after all of
// them; the uses have no order among each other.
inline const void* use_order_key(const void* state) {
  return static_cast<const char*>(state) + 1;
}

// Returns the key that orders the calls of one execution. XLA starts a call after the
// calls whose results it reads or overwrites. Buffers begin anywhere in an execution's
// memory, so the annotation covers all calls of an execution that do not overlap.
inline const void* run_order_key(std::int64_t run_id) {
  // Two executions may share an entry; this only hides races.
  static const char names[1 << 12] = {};
  return &names[static_cast<std::size_t>(run_id) % sizeof(names)];
}

// Orders a handler's call after all earlier calls with the same key, and before all
// later ones.
class OrderedScope {
 public:
  explicit OrderedScope(const void* what) : what_(what) { happens_after(what_); }
  ~OrderedScope() { happens_before(what_); }
  OrderedScope(const OrderedScope&) = delete;
  OrderedScope& operator=(const OrderedScope&) = delete;

 private:
  const void* what_;
};

}  // namespace bellhop
