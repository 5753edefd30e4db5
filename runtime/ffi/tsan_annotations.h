// ffi/tsan_annotations.h: the order that XLA keeps, told to ThreadSanitizer.
//
// XLA is not instrumented: ThreadSanitizer does not see how one of its threads waits
// for another, and would take all that they hand to each other for races. So what XLA
// promises is said here, and no more: what handlers share beside it they must order
// themselves. In other builds nothing is done.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace bellhop {

// What was done before `happens_before` is done when `happens_after` returns.
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

// A state that XLA keeps for a compiled call is built before it is used. It is
// destroyed after all its uses, which have no order among them.
inline const void* use_order_key(const void* state) {
  return static_cast<const char*>(state) + 1;
}

// What stands for the buffers of a run: a call comes after those whose results it
// reads, or overwrites. Buffers begin anywhere in a run's memory, so this is said of
// all calls of a run that do not overlap.
inline const void* run_order_key(std::int64_t run_id) {
  static const char names[1 << 12] = {};  // no matter if runs share one
  return &names[static_cast<std::size_t>(run_id) % sizeof(names)];
}

// While a handler runs: after the calls before it, and before those after it.
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
