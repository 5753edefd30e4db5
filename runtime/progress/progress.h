// progress/progress.h: how far the loops of running programs are.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace bellhop {

struct Callback;
class CallbackTable;

// How far one loop is in one run. Programs write the count and show nothing; whoever
// shows bars looks at it when it likes.
struct Bar {
  enum class State : uint8_t {
    kOpen,   // the loop goes on
    kEnded,  // it has ended, and nobody who shows bars knows
    kTaken,  // it has ended, and the next run may have the bar
  };
  std::atomic<State> state = State::kTaken;
  std::atomic<int64_t> run_id = 0;
  // Under jax.shard_map a loop runs once a device: one of them counts.
  std::atomic<int32_t> device = 0;
  std::atomic<int64_t> count = 0;
  std::atomic<int64_t> total = 0;  // below zero: not known

  // When the loop last told of itself.
  std::atomic<int64_t> reported_at = 0;

  // Guarded by the mutex of all bars.
  uint64_t number = 0;  // another one for each line that is shown
  uint64_t began = 0;   // places in the order of all that begins and ends
  uint64_t ended = 0;
  bool failed = false;
  std::chrono::steady_clock::time_point since;

  Bar* next = nullptr;
};

// The bars of one loop of a program: one for each run that was ever under way together
// with others. Found without a lock, since the list only grows.
class Bars {
 public:
  Bars() = default;
  ~Bars();
  Bars(const Bars&) = delete;
  Bars& operator=(const Bars&) = delete;
  Bar* find(int64_t run_id) const;
  // One that no run has any more, or a new one. Takes the mutex of all bars to be held.
  Bar* take_free();

 private:
  std::atomic<Bar*> head_ = nullptr;
};

// What a loop says in place of how many iterations are done.
inline constexpr int64_t kLoopBegins = -1;

// Says that `done` more iterations of a loop of `total` are done; returns how many more
// to do before the next call. Any thread may call it, without the GIL: it may leave a
// call of the callback to the thread of taps.
int64_t advance_bar(const std::shared_ptr<Callback>& callback, int64_t run_id,
                    int32_t device, int64_t done, int64_t total);

// Ends the bars of a run that failed. Any thread may call it.
void fail_bars(int64_t run_id) noexcept;

// The rest needs the GIL.

// What there is to show of a bar.
struct BarSnapshot {
  std::shared_ptr<Callback> callback;
  uint64_t number;
  uint64_t began;
  uint64_t ended;  // 0: not yet
  bool failed;
  int64_t count;
  int64_t total;
  double seconds;  // since it began
};

// All bars that go on, and those that have ended since the last time.
std::vector<BarSnapshot> look_at_bars();

// Ends the bars of the table's callbacks, whose programs have all returned.
void end_bars(const CallbackTable& table);

// Whether there is no bar to show: then the next one to begin calls its callback.
bool stop_watching();

// In the child of a fork.
void forget_bars();

}  // namespace bellhop
