// threads/work_crew.cc: threads that stay together for several loops in a row.
#include "threads/work_crew.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace bellhop {
namespace {

// A thread wakes up in 10 to 50 us, which must be small compared with its work.
constexpr double kNanosecondsForHelper = 200e3;

// Looks for a change, about 10 us, before a waiting thread offers its core to others.
constexpr int kLooks = 1 << 13;

// A helper that has offered its core so often and found no loop leaves. This is no
// time: on a busy machine a thread is without a core for longer than a circuit takes.
constexpr int kMostOffers = 1000;

// Calls is_done() until it is true. The holder of the work may have lost its core, so
// the thread that waits offers its own.
template <typename IsDone>
void wait_until(const IsDone& is_done) {
  for (int look = 0; !is_done(); ++look) {
    if (look >= kLooks) std::this_thread::yield();
  }
}

}  // namespace

// What the owner and the helpers share, as long as any of them is there.
class WorkCrew::Shared {
 public:
  // On the owner's thread.
  void run(std::size_t parts, const std::function<RowWorker()>& make) {
    make_ = &make;
    done_.store(0, std::memory_order_relaxed);
    // Helpers see by the ticket what was written before.
    ++loop_;
    ticket_.store(std::uint64_t{loop_} << 32 | std::uint64_t{parts} << 16,
                  std::memory_order_release);
    RowWorker worker;
    while (const std::optional<Part> part = take()) work(*part, worker);
    wait_until([&] { return done_.load(std::memory_order_acquire) == parts; });
    std::lock_guard lock(mutex_);
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // On a helper's thread.
  void help() {
    RowWorker worker;
    std::uint32_t loop = 0;  // of the worker
    for (int look = 0; look < kLooks + kMostOffers; ++look) {
      if (is_closed_.load(std::memory_order_acquire)) break;
      if (const std::optional<Part> part = take()) {
        if (part->loop != loop) worker = nullptr;
        loop = part->loop;
        work(*part, worker);
        look = 0;
      } else if (look >= kLooks) {
        std::this_thread::yield();
      }
    }
    helpers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // How many helpers were invited and have not left.
  std::size_t helpers() const { return helpers_.load(std::memory_order_relaxed); }
  void count_helper(int change) {
    helpers_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }

  void close() { is_closed_.store(true, std::memory_order_release); }

 private:
  struct Part {
    std::uint32_t loop;
    std::size_t number;
  };

  static std::size_t next_of(std::uint64_t ticket) { return ticket & 0xffff; }
  static std::size_t parts_of(std::uint64_t ticket) { return ticket >> 16 & 0xffff; }

  // A loop ends only when all parts are done, so a thread that has taken a part may use
  // the objects that the loop references.
  std::optional<Part> take() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (next_of(ticket) < parts_of(ticket)) {
      if (ticket_.compare_exchange_weak(ticket, ticket + 1,
                                        std::memory_order_acq_rel)) {
        return Part{static_cast<std::uint32_t>(ticket >> 32), next_of(ticket)};
      }
    }
    return std::nullopt;
  }

  void work(const Part& part, RowWorker& worker) {
    std::size_t done = 1;
    try {
      if (!worker) worker = (*make_)();
      worker(part.number);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (error_ == nullptr || part.number < failed_) {
        error_ = std::current_exception();
        failed_ = part.number;
      }
      // Nobody takes more parts of this loop.
      std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
      while (!ticket_.compare_exchange_weak(
          ticket, (ticket & ~std::uint64_t{0xffff}) | parts_of(ticket),
          std::memory_order_acq_rel)) {
      }
      done += parts_of(ticket) - next_of(ticket);
    }
    done_.fetch_add(done, std::memory_order_acq_rel);
  }

  // The number of the loop, how many parts it has, and the next of them.
  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> is_closed_{false};
  std::atomic<std::size_t> helpers_{0};
  const std::function<RowWorker()>* make_ = nullptr;  // of the loop
  std::uint32_t loop_ = 0;                            // the owner's

  std::mutex mutex_;  // guards what follows
  std::exception_ptr error_;
  std::size_t failed_ = 0;
};

WorkCrew::WorkCrew(const Helpers& helpers)
    : helpers_(helpers), shared_(std::make_shared<Shared>()) {}

WorkCrew::~WorkCrew() { shared_->close(); }

void WorkCrew::announce_work(double nanoseconds) {
  expected_ += nanoseconds;
  const auto worth = static_cast<std::size_t>(
      std::min(expected_ / kNanosecondsForHelper, static_cast<double>(kMostParts)));
  wanted_ = std::min(std::max<std::size_t>(helpers_.threads, 1) - 1, worth);
  invite();
}

void WorkCrew::invite() {
  while (shared_->helpers() < wanted_) {
    auto owned = std::make_unique<std::shared_ptr<Shared>>(shared_);
    shared_->count_helper(1);
    try {
      helpers_.schedule(
          [](void* data) {
            const std::unique_ptr<std::shared_ptr<Shared>> mine(
                static_cast<std::shared_ptr<Shared>*>(data));
            (*mine)->help();
          },
          owned.get());
    } catch (...) {
      // Those that come, and the owner, do the work.
      shared_->count_helper(-1);
      wanted_ = 0;
      return;
    }
    static_cast<void>(owned.release());
  }
}

void WorkCrew::run(std::size_t parts, const std::function<RowWorker()>& make) {
  if (parts == 0) return;
  invite();
  shared_->run(parts, make);
}

}  // namespace bellhop
