// threads/thread_team.cc: run independent rows of work on several threads.
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

// The work that makes another thread worthwhile. Waking a thread takes 10 to 50 us,
// which should be a small part.
constexpr std::chrono::microseconds kWorthAnotherThread{200};

// The work that a thread takes from the queue at a time, so that the queue's cost is
// small.
constexpr std::chrono::microseconds kWorkPerTake{20};

// The state that the threads of one for_each_row call share. A helper that starts after
// the call has ended finds `is_closed_` set, and does not touch the caller's objects.
class Rows {
 public:
  Rows(std::size_t rows, const std::function<RowWorker()>& make)
      : rows_(rows), make_(make) {}

  // On the calling thread.
  void run(const Helpers& helpers, Clock::duration expected) {
    RowWorker worker;
    const Clock::time_point began = Clock::now();
    const bool is_known = expected > Clock::duration{0} && rows_ > 1;
    if (is_known) invite(helpers, expected, 0);
    const bool can_work = attempt(is_known ? rows_ : 0, [&] {
      worker = make_();
      if (!is_known) worker(0);
    });
    if (rows_ > 1 && can_work) {
      // The duration of the first row predicts the duration of all rows.
      if (!is_known) {
        invite(helpers, std::max(Clock::now() - began, Clock::duration{1}), 1);
      }
      take(worker);
    }
    worker = nullptr;
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    is_idle_.wait(lock, [&] { return working_ == 0; });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Called by each owner: the caller, and each scheduled helper. The last one deletes
  // the object.
  void release() {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

 private:
  // Invites helpers in proportion to the work in the rows from `first` on.
  void invite(const Helpers& helpers, Clock::duration a_row, std::size_t first) {
    const std::size_t left = rows_ - first;
    const auto work = a_row * static_cast<Clock::rep>(left);
    const auto worth = static_cast<std::size_t>(work / kWorthAnotherThread) + 1;
    const std::size_t threads = std::min({helpers.threads, left, worth});
    const auto cheap = static_cast<std::size_t>(kWorkPerTake / a_row);
    const std::size_t share = std::max<std::size_t>(left / (8 * threads), 1);
    {
      // The lock makes all earlier writes visible to the helpers.
      std::lock_guard lock(mutex_);
      at_once_ = threads <= 1 ? left : std::clamp<std::size_t>(cheap, 1, share);
      next_.store(first);
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
        // The helpers that were scheduled, and the caller, process the rows.
        owners_.fetch_sub(threads - i);
        return;
      }
    }
  }

  // Processes rows on a helper's thread, unless the call has ended.
  void help() {
    {
      std::lock_guard lock(mutex_);
      if (is_closed_ || next_.load() >= rows_) return;
      ++working_;
    }
    try {
      take(make_());
    } catch (...) {
      // `make` may throw, for instance bad_alloc. The other threads process the rows.
    }
    std::lock_guard lock(mutex_);
    --working_;
    is_idle_.notify_all();
  }

  // Takes rows from the queue and processes them until none are left.
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

  // Runs the work of a row. If it throws, stores the exception unless a lower row has
  // failed, and stops all threads from taking more rows.
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
  const std::function<RowWorker()>& make_;  // Valid until `is_closed_`.
  std::atomic<std::size_t> owners_{1};
  std::atomic<std::size_t> next_{0};
  std::size_t at_once_ = 1;

  std::mutex mutex_;  // guards the members below
  std::condition_variable is_idle_;
  bool is_closed_ = false;
  std::size_t working_ = 0;
  std::exception_ptr error_;
  std::size_t failed_ = 0;
};

}  // namespace

void for_each_row(std::size_t rows, const Helpers& helpers,
                  const std::function<RowWorker()>& make,
                  std::chrono::nanoseconds expected) {
  if (rows == 0) return;
  struct Release {
    void operator()(Rows* owned) const { owned->release(); }
  };
  const std::unique_ptr<Rows, Release> shared(new Rows(rows, make));
  shared->run(helpers, expected);
}

}  // namespace bellhop
