// taps/tap_queue.h: the queue of tapped calls, between programs and the thread that
// calls Python.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"
#include "taps/tap_chunk.h"
#include "threads/spin_mutex.h"

namespace bellhop {

// A first-in-first-out queue of calls with any number of producers and one consumer,
// whose thread starts with the first call. The queue never takes the GIL; callers of
// functions that may block must not hold it.
class TapQueue {
 public:
  // The body of the consumer's thread: takes chunks until `take` returns null.
  using Consume = void (*)(TapQueue&);

  TapQueue(Consume consume, size_t limit) : consume_(consume), limit_(limit) {}
  ~TapQueue();
  TapQueue(const TapQueue&) = delete;
  TapQueue& operator=(const TapQueue&) = delete;

  // Called by producers. Appends a call with a copy of its arguments. If the queue
  // would exceed its limit, waits until the consumer has freed space, except on the
  // consumer's own thread. After `close`, waits until all earlier calls have ended and
  // returns false without appending. May throw std::bad_alloc, std::system_error, and
  // Interrupted (interpreter/signals.h).
  bool push(const std::shared_ptr<Callback>& callback,
            std::span<const BufferView> arguments);

  // The number of calls that were pushed, and the number of these that have ended.
  uint64_t issued() const;
  uint64_t consumed() const { return consumed_.load(); }

  // Waits until `count` calls have ended, at most for `at_most`; returns whether they
  // have.
  bool wait_for(uint64_t count, std::chrono::milliseconds at_most);

  // The limit for the bytes of waiting calls; `set_limit` returns the previous one.
  size_t limit() const { return limit_.load(); }
  size_t set_limit(size_t limit);

  // Lets the consumer's thread end once it has consumed all calls.
  void close();

  // Called after `close`. Tells the consumer to discard the remaining calls, and ends
  // all waits for them.
  void abandon();
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }

  // Waits for the end of the consumer's thread, at most for `at_most`; returns whether
  // it has ended.
  bool join(std::chrono::milliseconds at_most);

  bool is_consumer() const { return std::this_thread::get_id() == consumer_.load(); }

  // The functions below are called by the consumer.
  // Returns the next chunk, which the caller passes to `consume`, or null once the
  // queue is closed and empty.
  TapChunk* take();
  // Calls `visit(callback, arguments)` for each record of a chunk, in order, and
  // recycles the chunk. When the last call is counted as ended, the chunk no longer
  // shares any callback.
  template <typename Visitor>
  void consume(TapChunk* chunk, Visitor&& visit);

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // Blocks until a record of `bytes` bytes fits. If the consumer makes no progress for
  // a second, raises the limit: its call may be waiting for the program that is blocked
  // here.
  void wait_for_room(std::unique_lock<SpinMutex>& lock, size_t bytes);
  bool has_room(size_t bytes);
  TapChunk* get_chunk_with_room(size_t bytes);
  void append(TapChunk* chunk);
  // Counts a record as consumed and wakes the threads that wait for it.
  void count(size_t record_bytes);
  // Keeps an empty chunk for reuse, or destroys it.
  void recycle(TapChunk* chunk);
  void run();

  const Consume consume_;
  mutable SpinMutex mutex_;
  std::condition_variable_any work_;      // wakes the consumer
  std::condition_variable_any progress_;  // wakes threads that wait for the consumer
  std::thread thread_;
  std::atomic<size_t> limit_;
  std::atomic<std::thread::id> consumer_;

  // The members below are guarded by the mutex.
  TapChunk* head_ = nullptr;
  TapChunk* tail_ = nullptr;
  TapChunk* spares_ = nullptr;
  size_t spare_count_ = 0;
  size_t extra_limit_ = 0;
  uint64_t issued_ = 0;
  uint64_t issued_bytes_ = 0;
  // A record may be pushed without reading the consumer's counters while issued_bytes_
  // does not exceed this.
  uint64_t room_bytes_ = 0;
  bool is_asleep_ = false;
  bool is_closed_ = false;
  bool is_over_ = false;

  // Written only by the consumer, for every record; on a cache line apart from the
  // producers' members.
  alignas(64) std::atomic<uint64_t> consumed_ = 0;
  std::atomic<uint64_t> consumed_bytes_ = 0;
  // Read by the consumer for every record, and written once.
  std::atomic<bool> is_abandoned_ = false;
  // The lowest counts at which a thread waits to be woken.
  alignas(64) std::atomic<uint64_t> wake_at_ = kNever;
  std::atomic<uint64_t> wake_at_bytes_ = kNever;
};

template <typename Visitor>
void TapQueue::consume(TapChunk* chunk, Visitor&& visit) {
  chunk->consume(visit, [this](size_t bytes) { count(bytes); });
  recycle(chunk);
}

}  // namespace bellhop
