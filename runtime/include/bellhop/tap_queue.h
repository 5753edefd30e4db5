// bellhop/tap_queue.h: what programs tapped, on its way to Python.
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

#include "bellhop/callback_table.h"
#include "bellhop/numpy_arrays.h"

namespace bellhop {

// A queue of calls, first in, first out, of any number of producers and one consumer,
// whose thread starts with the first call. It knows nothing of the GIL: whoever may
// block in it must not hold the lock.
class TapQueue {
 public:
  // One call, followed in memory by its arguments: views, dimensions and data.
  struct Record {
    // Empty where it is that of the record before, in the same chunk: counting
    // references of one loop's taps would cost more than the rest of them.
    std::shared_ptr<Callback> callback;
    size_t bytes;
    size_t arity;

    std::span<const BufferView> arguments() const {
      return {reinterpret_cast<const BufferView*>(this + 1), arity};
    }
  };

  // A run of records in one piece of memory. The consumer owns those it took.
  class Chunk;

  // What the thread of the consumer does: it takes chunks until there are no more.
  using Consume = void (*)(TapQueue&);

  TapQueue(Consume consume, size_t limit) : consume_(consume), limit_(limit) {}
  ~TapQueue();
  TapQueue(const TapQueue&) = delete;
  TapQueue& operator=(const TapQueue&) = delete;

  // Producers. Copies the arguments. Where that is more than the limit allows, waits
  // until the consumer made room, but for a producer that is the consumer's own thread.
  // False, with nothing done, after `close`. May throw std::bad_alloc.
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

  // Waits for that, for that long; returns whether it is so.
  bool join(std::chrono::milliseconds at_most);

  bool is_consumer() const { return std::this_thread::get_id() == consumer_.load(); }

  // The consumer.
  // The next chunk; null, and no more ever, after `close`.
  Chunk* take();
  // Calls `visit(callback, arguments)` for each record of a chunk in order. When the
  // last one is over, none of the callbacks is shared any more.
  template <typename Visitor>
  void consume(Chunk* chunk, Visitor&& visit);

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void wait_for_room(std::unique_lock<std::mutex>& lock, size_t bytes);
  bool has_room(size_t bytes);
  Chunk* chunk_with_room(size_t bytes);
  void append(Chunk* chunk);
  void count(const Record& record);
  void recycle(Chunk* chunk);
  void run();

  const Consume consume_;
  mutable std::mutex mutex_;
  std::condition_variable work_;      // for the consumer
  std::condition_variable progress_;  // for those who wait for the consumer
  std::thread thread_;
  std::atomic<size_t> limit_;
  std::atomic<std::thread::id> consumer_;

  // Guarded by the mutex.
  Chunk* head_ = nullptr;
  Chunk* tail_ = nullptr;
  Chunk* spares_ = nullptr;
  size_t spare_count_ = 0;
  size_t lent_ = 0;
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
  // From which count on someone wants to be woken.
  alignas(64) std::atomic<uint64_t> wake_at_ = kNever;
  std::atomic<uint64_t> wake_at_bytes_ = kNever;
};

class alignas(std::max_align_t) TapQueue::Chunk {
 public:
  static Chunk* make(size_t capacity);
  static void destroy(Chunk* chunk);

  bool has_room(size_t bytes) const { return capacity_ - used_ >= bytes; }
  void write(const std::shared_ptr<Callback>& callback,
             std::span<const BufferView> arguments, size_t bytes);
  void clear() {
    used_ = 0;
    last_ = nullptr;
  }

  size_t capacity() const { return capacity_; }
  Record* begin() { return reinterpret_cast<Record*>(memory()); }
  Record* end() { return reinterpret_cast<Record*>(memory() + used_); }
  static Record* after(Record* record) {
    return reinterpret_cast<Record*>(reinterpret_cast<std::byte*>(record) +
                                     record->bytes);
  }

  Chunk* next = nullptr;

 private:
  explicit Chunk(size_t capacity) : capacity_(capacity) {}
  std::byte* memory() { return reinterpret_cast<std::byte*>(this + 1); }

  size_t capacity_;
  size_t used_ = 0;
  const Callback* last_ = nullptr;
};

template <typename Visitor>
void TapQueue::consume(Chunk* chunk, Visitor&& visit) {
  std::shared_ptr<Callback> callback;
  for (Record* record = chunk->begin(); record != chunk->end();) {
    if (record->callback != nullptr) callback = std::move(record->callback);
    visit(*callback, record->arguments());
    Record* next = Chunk::after(record);
    if (next == chunk->end()) callback.reset();
    count(*record);
    record = next;
  }
  recycle(chunk);
}

}  // namespace bellhop
