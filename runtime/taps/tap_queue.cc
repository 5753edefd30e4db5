// taps/tap_queue.cc: the queue of tapped calls, bounded by the bytes of its records.
#include "taps/tap_queue.h"

#include <algorithm>
#include <utility>

#include "interpreter/signals.h"

namespace bellhop {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kSpares = 16;
// Larger records get chunks of their own, so that they are copied without holding the
// mutex.
constexpr size_t kLargeBytes = kChunkBytes / 4;

// Before it sleeps, an idle consumer polls this often for this many times: a producer
// that has to wake it makes a system call.
constexpr std::chrono::microseconds kLook{1000};
constexpr int kLooksAtQueue = 20;

// The longest time for which a producer waits without checking signals.
constexpr std::chrono::milliseconds kWait{50};

// A call that takes longer than this may be waiting for the program that waits for
// space.
constexpr std::chrono::seconds kStalled{1};

}  // namespace

TapQueue::~TapQueue() {
  close();
  if (thread_.joinable()) thread_.join();
  while (spares_ != nullptr) TapChunk::destroy(std::exchange(spares_, spares_->next));
}

bool TapQueue::push(const std::shared_ptr<Callback>& callback,
                    std::span<const BufferView> arguments) {
  const size_t bytes = TapChunk::max_bytes(arguments);
  std::unique_lock lock(mutex_);
  if (!has_room(bytes)) wait_for_room(lock, bytes);
  // After `close`, the calling thread makes its call itself, and earlier calls must
  // come first.
  while (is_closed_ && !is_over_ && !is_abandoned() && thread_.joinable() &&
         !is_consumer()) {
    progress_.wait_for(lock, kWait);
  }
  if (is_closed_) return false;
  if (!thread_.joinable()) thread_ = std::thread(&TapQueue::run, this);
  if (bytes <= kLargeBytes) {
    issued_bytes_ += get_chunk_with_room(bytes)->write(callback, arguments);
  } else {
    // The bytes are reserved from here on, and `take` waits for records whose bytes are
    // reserved.
    issued_bytes_ += bytes;
    lock.unlock();
    TapChunk* chunk = nullptr;
    try {
      chunk = TapChunk::make(bytes);
      chunk->write(callback, arguments);
    } catch (...) {
      TapChunk::destroy(chunk);
      lock.lock();
      issued_bytes_ -= bytes;
      throw;
    }
    lock.lock();
    append(chunk);
  }
  ++issued_;
  const bool wake = std::exchange(is_asleep_, false);
  lock.unlock();
  if (wake) work_.notify_one();
  return true;
}

bool TapQueue::has_room(size_t bytes) {
  // The consumer writes its count all the time, so it is read only if necessary.
  if (issued_bytes_ + bytes <= room_bytes_) return true;
  const uint64_t consumed = consumed_bytes_.load();
  room_bytes_ = consumed + limit_;
  // The raised limit holds until the queue is below the normal limit again.
  if (issued_bytes_ + bytes <= room_bytes_) extra_limit_ = 0;
  return issued_bytes_ == consumed ||
         issued_bytes_ + bytes <= room_bytes_ + extra_limit_;
}

void TapQueue::wait_for_room(std::unique_lock<SpinMutex>& lock, size_t bytes) {
  if (is_consumer()) return;
  uint64_t before = consumed_.load();
  auto since = std::chrono::steady_clock::now();
  while (!is_closed_) {
    // Waits for a quarter of the limit: a producer that is woken for every record would
    // make hardly any progress.
    const size_t room = std::max(bytes, limit_ / 4);
    const size_t most = limit_ + extra_limit_;
    const uint64_t filled = issued_bytes_ - std::min<uint64_t>(issued_bytes_, most);
    const uint64_t target = std::min<uint64_t>(filled + room, issued_bytes_);
    wake_at_bytes_.store(std::min(wake_at_bytes_.load(), target));
    if (has_room(bytes)) break;
    progress_.wait_for(lock, kWait);
    lock.unlock();
    check_signals();
    lock.lock();
    const auto now = std::chrono::steady_clock::now();
    const uint64_t consumed = consumed_.load();
    const bool stalls = std::exchange(before, consumed) == consumed;
    if (stalls && now - since < kStalled) continue;
    if (stalls) extra_limit_ += limit_;
    since = now;
  }
}

TapChunk* TapQueue::get_chunk_with_room(size_t bytes) {
  if (tail_ == nullptr || !tail_->has_room(bytes)) {
    TapChunk* chunk = spares_;
    if (chunk == nullptr) {
      chunk = TapChunk::make(kChunkBytes);
    } else {
      spares_ = std::exchange(chunk->next, nullptr);
      --spare_count_;
    }
    append(chunk);
  }
  return tail_;
}

void TapQueue::append(TapChunk* chunk) {
  (tail_ == nullptr ? head_ : tail_->next) = chunk;
  tail_ = chunk;
}

uint64_t TapQueue::issued() const {
  std::lock_guard lock(mutex_);
  return issued_;
}

bool TapQueue::wait_for(uint64_t count, std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  work_.notify_one();
  while (true) {
    wake_at_.store(std::min(wake_at_.load(), count));
    if (consumed_.load() >= count) return true;
    if (progress_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return consumed_.load() >= count;
    }
  }
}

size_t TapQueue::set_limit(size_t limit) {
  std::lock_guard lock(mutex_);
  room_bytes_ = extra_limit_ = 0;
  progress_.notify_all();
  return limit_.exchange(limit);
}

void TapQueue::close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  work_.notify_one();
  progress_.notify_all();
}

void TapQueue::abandon() {
  std::lock_guard lock(mutex_);
  is_abandoned_.store(true);
  progress_.notify_all();
}

bool TapQueue::join(std::chrono::milliseconds at_most) {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) return true;
    if (!progress_.wait_for(lock, at_most, [this] { return is_over_; })) return false;
  }
  thread_.join();
  return true;
}

void TapQueue::run() {
  consumer_.store(std::this_thread::get_id());
  consume_(*this);
  std::lock_guard lock(mutex_);
  is_over_ = true;
  progress_.notify_all();
}

TapChunk* TapQueue::take() {
  std::unique_lock lock(mutex_);
  const auto is_finished = [this] {
    return is_closed_ && issued_bytes_ == consumed_bytes_.load();
  };
  for (int look = 0; look < kLooksAtQueue && head_ == nullptr && !is_finished();
       ++look) {
    work_.wait_for(lock, kLook);
  }
  while (head_ == nullptr && !is_finished()) {
    is_asleep_ = true;
    work_.wait(lock);
  }
  is_asleep_ = false;
  TapChunk* chunk = head_;
  if (chunk == nullptr) return nullptr;
  head_ = std::exchange(chunk->next, nullptr);
  if (head_ == nullptr) tail_ = nullptr;
  return chunk;
}

void TapQueue::count(size_t record_bytes) {
  // The stores and the loads are in the reverse order of `wait_for`, so that one side
  // sees the other's store.
  const uint64_t bytes = consumed_bytes_.load(std::memory_order_relaxed) + record_bytes;
  const uint64_t count = consumed_.load(std::memory_order_relaxed) + 1;
  consumed_bytes_.store(bytes);
  consumed_.store(count);
  if (count < wake_at_.load() && bytes < wake_at_bytes_.load()) return;
  std::lock_guard lock(mutex_);
  wake_at_.store(kNever);
  wake_at_bytes_.store(kNever);
  progress_.notify_all();
}

void TapQueue::recycle(TapChunk* chunk) {
  if (chunk->capacity() == kChunkBytes) {
    chunk->clear();
    std::lock_guard lock(mutex_);
    if (spare_count_ < kSpares) {
      ++spare_count_;
      chunk->next = std::exchange(spares_, chunk);
      return;
    }
  }
  TapChunk::destroy(chunk);
}

}  // namespace bellhop
