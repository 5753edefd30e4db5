// taps/tap_queue.h: what programs tapped, on its way to Python.
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

// A queue of calls, first in, first out, of any number of producers and one consumer,
// whose thread starts with the first call. It knows nothing of the GIL: whoever may
// block in it must not hold the lock.
class TapQueue {
 public:
  // What the thread of the consumer does: it takes chunks until there are no more.
  using Consume = void (*)(TapQueue&);

  TapQueue(Consume consume, size_t limit) : consume_(consume), limit_(limit) {}
  ~TapQueue();
  TapQueue(const TapQueue&) = delete;
  TapQueue& operator=(const TapQueue&) = delete;

  // Producers. Copies the arguments. Where that is more than the limit allows, waits
  // until the consumer made room, but for a producer that is the consumer's own thread.
  // False, with nothing done, after `close`, when all that was pushed before is over.
  // May throw std::bad_alloc.
  bool push(const std::shared_ptr<Callback>& callback,
            std::span<const BufferView> arguments);

  // How many calls were pushed, and how many of these are over.
  uint64_t issued() const;
  uint64_t consumed() const { return consumed_.load(); }

  // Waits until `count` calls are over, or for that long; returns whether they are.
  bool wait_for(uint64_t count, std::chrono::milliseconds at_most);

  // The most bytes that may wait; `set_limit` returns what it was before.
  size_t limit() const { return limit_.load(); }
  size_t set_limit(size_t limit);

  // Lets the consumer end when it has consumed everything.
  void close();

  // After `close`: what is pushed is not to be called any more, and nobody waits for
  // it.
  void abandon();
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }

  // Waits for the consumer's end, for that long; returns whether it has come.
  bool join(std::chrono::milliseconds at_most);

  bool is_consumer() const { return std::this_thread::get_id() == consumer_.load(); }

  // The consumer.
  // The next chunk; null, and no more ever, after `close`.
  TapChunk* take();
  // Calls `visit(callback, arguments)` for each record of a chunk in order. When the
  // last one is over, none of the callbacks is shared any more.
  template <typename Visitor>
  void consume(TapChunk* chunk, Visitor&& visit);

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void wait_for_room(std::unique_lock<SpinMutex>& lock, size_t bytes);
  bool has_room(size_t bytes);
  TapChunk* get_chunk_with_room(size_t bytes);
  void append(TapChunk* chunk);
  void count(size_t record_bytes);
  void recycle(TapChunk* chunk);
  void run();

  const Consume consume_;
  mutable SpinMutex mutex_;
  std::condition_variable_any work_;      // for the consumer
  std::condition_variable_any progress_;  // for those who wait for the consumer
  std::thread thread_;
  std::atomic<size_t> limit_;
  std::atomic<std::thread::id> consumer_;

  // Guarded by the mutex.
  TapChunk* head_ = nullptr;
  TapChunk* tail_ = nullptr;
  TapChunk* spares_ = nullptr;
  size_t spare_count_ = 0;
  size_t extra_limit_ = 0;
  uint64_t issued_ = 0;
  uint64_t issued_bytes_ = 0;
  // There is room up to here, as far as anybody looked.
  uint64_t room_bytes_ = 0;
  bool is_asleep_ = false;
  bool is_closed_ = false;
  bool is_over_ = false;

  // Written by the consumer alone, for every record: apart from what producers write.
  alignas(64) std::atomic<uint64_t> consumed_ = 0;
  std::atomic<uint64_t> consumed_bytes_ = 0;
  // Read by it for every record, and written once.
  std::atomic<bool> is_abandoned_ = false;
  // From which count on someone wants to be woken.
  alignas(64) std::atomic<uint64_t> wake_at_ = kNever;
  std::atomic<uint64_t> wake_at_bytes_ = kNever;
};

template <typename Visitor>
void TapQueue::consume(TapChunk* chunk, Visitor&& visit) {
  chunk->consume(visit, [this](size_t bytes) { count(bytes); });
  recycle(chunk);
}

}  // namespace bellhop
