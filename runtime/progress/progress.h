// progress/progress.h: progress bars of the loops of running programs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace bellhop {

struct Callback;
class CallbackTable;

// The progress of one loop in one execution. Programs count iterations here and display
// nothing; a thread that displays bars reads them when it likes.
struct Bar {
  enum class State : uint8_t {
    kOpen,   // the loop runs
    kEnded,  // the loop has ended, and look_at_bars() has not reported that yet
    kTaken,  // the end was reported, and the next execution may reuse the bar
  };
  std::atomic<State> state = State::kTaken;
  std::atomic<int64_t> run_id = 0;
  // The device whose iterations are counted: under jax.shard_map the loop runs on each
  // device.
  std::atomic<int32_t> device = 0;
  std::atomic<int64_t> count = 0;
  std::atomic<int64_t> total = 0;  // below zero: unknown

  // Nanoseconds of the steady clock at the loop's latest report.
  std::atomic<int64_t> reported_at = 0;

  // The members below are guarded by the mutex of all bars.
  uint64_t number = 0;  // identifies a displayed line
  uint64_t began = 0;   // position in the sequence of all begins and ends
  uint64_t ended = 0;
  bool failed = false;
  std::chrono::steady_clock::time_point since;

  Bar* next = nullptr;
};

// The bars of one loop of a program, one for each execution that ever ran at the same
// time as others. Lookups need no lock, since the list only grows.
class Bars {
 public:
  Bars() = default;
  ~Bars();
  Bars(const Bars&) = delete;
  Bars& operator=(const Bars&) = delete;
  // Returns the bar of an execution, or null.
  Bar* find(int64_t run_id) const;
  // Returns a bar that no execution uses any longer, or a new one. The caller holds the
  // mutex of all bars.
  Bar* take_free();

 private:
  std::atomic<Bar*> head_ = nullptr;
};

// The value of `done` that marks the beginning of a loop.
inline constexpr int64_t kLoopBegins = -1;

// Counts `done` more iterations of a loop with `total` iterations (below zero:
// unchanged). Returns how many iterations the loop should run before the next call. May
// be called from any thread, without the GIL; may queue a call of the callback, which
// starts the display.
int64_t advance_bar(const std::shared_ptr<Callback>& callback, int64_t run_id,
                    int32_t device, int64_t done, int64_t total);

// Marks the bars of a failed execution as ended and failed. May be called from any
// thread.
void fail_bars(int64_t run_id) noexcept;

// The functions below need the GIL.

// A copy of a bar's state, for display.
struct BarSnapshot {
  std::shared_ptr<Callback> callback;
  uint64_t number;
  uint64_t began;
  uint64_t ended;  // 0 while the loop runs
  bool failed;
  int64_t count;
  int64_t total;
  double seconds;  // since the loop began
};

// Returns the bars of all running loops, and of loops that have ended since the last
// call.
std::vector<BarSnapshot> look_at_bars();

// Marks the open bars of a table's callbacks as ended and failed. All programs of the
// table have returned.
void end_bars(const CallbackTable& table);

// Returns whether no bars are left. If so, the next bar calls its callback, to start
// the display again.
bool stop_watching();

// Discards all bars. Called in the child of a fork.
void forget_bars();

}  // namespace bellhop
