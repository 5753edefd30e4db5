// threads/thread_team.cc: independent rows of work, shared by several threads.
#include "threads/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace bellhop {
namespace {

using Clock = std::chrono::steady_clock;

// Another thread wakes in 10 to 50 us, which is to be a small part of what it does.
constexpr std::chrono::microseconds kWorthAnotherThread{200};

// Rows are taken several at a time, so that taking them costs nothing beside them.
constexpr std::chrono::microseconds kWorkPerTake{20};

// What the threads of one call share. Helpers that come late find it closed, and touch
// nothing of the call's.
class Rows {
 public:
  Rows(std::size_t rows, const std::function<RowWorker()>& make)
      : rows_(rows), make_(make) {}

  // On the calling thread. The first row shows how long the others take.
  void run(const Helpers& helpers) {
    RowWorker worker;
    const Clock::time_point began = Clock::now();
    attempt(0, [&] {
      worker = make_();
      worker(0);
    });
    if (rows_ > 1 && error_ == nullptr) {
      const auto a_row = std::max(Clock::now() - began, Clock::duration{1});
      invite(helpers, a_row);
      take(worker);
    }
    worker = nullptr;
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    is_idle_.wait(lock, [&] { return working_ == 0; });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // By each of its owners: the caller, and helpers that have not come.
  void release() {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

 private:
  void invite(const Helpers& helpers, Clock::duration a_row) {
    const std::size_t left = rows_ - 1;
    const auto work = a_row * static_cast<Clock::rep>(left);
    const auto worth = static_cast<std::size_t>(work / kWorthAnotherThread) + 1;
    const std::size_t threads = std::min({helpers.threads, left, worth});
    const auto cheap = static_cast<std::size_t>(kWorkPerTake / a_row);
    const std::size_t share = std::max<std::size_t>(left / (8 * threads), 1);
    {
      // What is written here and before, helpers see by this lock.
      std::lock_guard lock(mutex_);
      at_once_ = threads <= 1 ? left : std::clamp<std::size_t>(cheap, 1, share);
      next_.store(1);
      owners_.store(threads);
    }
    for (std::size_t i = 1; i < threads; ++i) {
      try {
        helpers.schedule(
            [](void* rows) {
              static_cast<Rows*>(rows)->help();
              static_cast<Rows*>(rows)->release();
            },
            this);
      } catch (...) {
        // Those that come, and the caller, do the work.
        owners_.fetch_sub(threads - i);
        return;
      }
    }
  }

  // On a helper's thread.
  void help() {
    {
      std::lock_guard lock(mutex_);
      if (is_closed_ || next_.load() >= rows_) return;
      ++working_;
    }
    try {
      take(make_());
    } catch (...) {
      // Without the memory for another worker, say, the others do the work.
    }
    std::lock_guard lock(mutex_);
    --working_;
    is_idle_.notify_all();
  }

  void take(const RowWorker& worker) {
    while (true) {
      const std::size_t first = next_.fetch_add(at_once_);
      const std::size_t last = std::min(first + at_once_, rows_);
      for (std::size_t row = first; row < last; ++row) {
        if (!attempt(row, [&] { worker(row); })) return;
      }
      if (last >= rows_) return;
    }
  }

  // Keeps what the first of the rows that fail throws, and lets nobody take more rows.
  template <typename Work>
  bool attempt(std::size_t row, Work&& work) {
    try {
      work();
      return true;
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (error_ == nullptr || row < failed_) {
        error_ = std::current_exception();
        failed_ = row;
      }
      next_.store(rows_);
      return false;
    }
  }

  const std::size_t rows_;
  const std::function<RowWorker()>& make_;  // while it is not closed
  std::atomic<std::size_t> owners_{1};
  std::atomic<std::size_t> next_{0};
  std::size_t at_once_ = 1;

  std::mutex mutex_;  // guards what follows
  std::condition_variable is_idle_;
  bool is_closed_ = false;
  std::size_t working_ = 0;
  std::exception_ptr error_;
  std::size_t failed_ = 0;
};

}  // namespace

void for_each_row(std::size_t rows, const Helpers& helpers,
                  const std::function<RowWorker()>& make) {
  if (rows == 0) return;
  struct Release {
    void operator()(Rows* owned) const { owned->release(); }
  };
  const std::unique_ptr<Rows, Release> shared(new Rows(rows, make));
  shared->run(helpers);
}

}  // namespace bellhop
