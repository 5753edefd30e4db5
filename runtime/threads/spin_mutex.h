// threads/spin_mutex.h: a mutex for critical sections that are shorter than a system
// call.
#pragma once

#include <atomic>
#include <thread>

namespace bellhop {

// A spin lock: one atomic exchange to lock and one store to unlock, half the cost of an
// uncontended std::mutex. A waiting thread yields its core after some attempts, since
// the holder may have been descheduled.
class SpinMutex {
 public:
  void lock() {
    while (is_locked_.exchange(true, std::memory_order_acquire)) {
      for (int look = 0; is_locked_.load(std::memory_order_relaxed); ++look) {
        if (look >= kLooks) std::this_thread::yield();
      }
    }
  }
  void unlock() { is_locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kLooks = 64;
  std::atomic<bool> is_locked_ = false;
};

}  // namespace bellhop
