// progress/progress.cc: the custom call that reports the progress of a loop.
#include "progress/progress.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "callbacks/lookup.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "taps/taps.h"

namespace bellhop {
namespace {

struct ShownBar {
  std::shared_ptr<Callback> callback;
  Bar* bar;
};

// A holder of the mutex takes no other lock, nor the GIL.
struct AllBars {
  std::mutex mutex;
  std::vector<ShownBar> shown;  // open bars, and ended bars that were not reported yet
  uint64_t numbers = 0;
  uint64_t events = 0;
  // Whether a thread displays bars.
  bool is_watched = false;
};

// Never destroyed, because programs may outlive static objects. Replaced in the child
// of a fork.
AllBars* all = new AllBars;

// Marks a bar as ended. The caller holds the mutex.
void end(Bar& bar, bool failed) {
  bar.ended = ++all->events;
  bar.failed = failed;
  bar.state.store(Bar::State::kEnded);
}

bool is_open(const Bar& bar) {
  return bar.state.load(std::memory_order_relaxed) == Bar::State::kOpen;
}

// Opens a bar (the given one, or a free one if null). Returns it, and whether no thread
// displays bars yet.
std::pair<Bar*, bool> begin(const std::shared_ptr<Callback>& callback, Bar* bar,
                            int64_t run_id, int32_t device, int64_t total) {
  std::lock_guard lock(all->mutex);
  if (bar == nullptr) bar = callback->bars->take_free();
  if (bar->state.load() == Bar::State::kTaken) {
    bar->number = ++all->numbers;
    all->shown.push_back({callback, bar});
  }
  bar->run_id = run_id;
  bar->device = device;
  bar->count = 0;
  bar->total = total;
  bar->began = ++all->events;
  bar->ended = 0;
  bar->failed = false;
  bar->since = std::chrono::steady_clock::now();
  bar->state = Bar::State::kOpen;
  return {bar, !std::exchange(all->is_watched, true)};
}

// Ends the open bars that a predicate accepts.
void end_bars_where(bool failed, const auto& is_selected) {
  std::lock_guard lock(all->mutex);
  for (const ShownBar& shown : all->shown) {
    if (is_open(*shown.bar) && is_selected(shown)) end(*shown.bar, failed);
  }
}

// A report takes time, so a loop with short iterations reports only every kStride
// iterations.
constexpr std::chrono::microseconds kShort{100};
constexpr int64_t kStride = 16;

constexpr int64_t kUnknown = -1;

// Returns the monotonic time in nanoseconds.
int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() /
         std::chrono::nanoseconds{1};
}

// Reads an s32 (programs without JAX's 64-bit types) or s64 scalar.
int64_t load_integer(const XLA_FFI_Buffer& buffer) {
  return buffer.dtype == XLA_FFI_DataType_S32 ? *static_cast<int32_t*>(buffer.data)
                                              : *static_cast<int64_t*>(buffer.data);
}

// Writes an s32 or s64 scalar.
void store_integer(const XLA_FFI_Buffer& buffer, int64_t value) {
  if (buffer.dtype == XLA_FFI_DataType_S32) {
    *static_cast<int32_t*>(buffer.data) = static_cast<int32_t>(value);
  } else {
    *static_cast<int64_t*>(buffer.data) = value;
  }
}

// Returns whether a buffer is a scalar that load_integer and store_integer support.
bool is_integer(const void* of_frame) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(of_frame);
  return buffer.rank == 0 &&
         (buffer.dtype == XLA_FFI_DataType_S32 || buffer.dtype == XLA_FFI_DataType_S64);
}

// Threading: any XLA thread, never with the GIL; takes the mutex of all bars only where
// a loop begins or ends.
// Ownership: keeps only numbers; an open bar shares the ownership of its callback.
XLA_FFI_Error* progress_handler(XLA_FFI_CallFrame* frame) {
  return run_callback_handler(frame, [&]() -> XLA_FFI_Error* {
    if (!has_leading_handles(*frame, 1)) return make_contract_error(*frame);
    std::shared_ptr<Callback> published;
    const std::shared_ptr<Callback>* callback = shared_callback(*frame, published);
    if (callback == nullptr || (*callback)->bars == nullptr) {
      return make_missing_callback_error(*frame);
    }
    const auto operand = [&](int64_t place) -> const XLA_FFI_Buffer& {
      return *static_cast<const XLA_FFI_Buffer*>(frame->args.args[place]);
    };
    const bool has_token =
        frame->args.size > 1 && operand(1).dtype == XLA_FFI_DataType_TOKEN;
    const int64_t first = has_token ? 2 : 1;
    if (frame->args.size < first + 2 || frame->rets.size < 1 ||
        !is_integer(frame->args.args[first]) ||
        !is_integer(frame->args.args[first + 1]) ||
        !is_integer(frame->rets.rets[frame->rets.size - 1])) {
      return make_contract_error(*frame);
    }
    try {
      const int64_t due =
          advance_bar(*callback, run_id(*frame), device_ordinal(*frame),
                      load_integer(operand(first)), load_integer(operand(first + 1)));
      store_integer(
          *static_cast<XLA_FFI_Buffer*>(frame->rets.rets[frame->rets.size - 1]), due);
    } catch (const std::exception& exception) {
      release_run(run_id(*frame));
      return error(frame->api, std::string(exception.what()) + " (progress of " +
                                   (*callback)->call_site.site + ")");
    }
    return nullptr;
  });
}

const Target kProgress("bellhop_progress", progress_handler);

}  // namespace

Bars::~Bars() {
  Bar* bar = head_.load();
  while (bar != nullptr) delete std::exchange(bar, bar->next);
}

Bar* Bars::find(int64_t run_id) const {
  Bar* bar = head_.load(std::memory_order_acquire);
  while (bar != nullptr && bar->run_id.load(std::memory_order_relaxed) != run_id) {
    bar = bar->next;
  }
  return bar;
}

Bar* Bars::take_free() {
  Bar* bar = head_.load();
  while (bar != nullptr && bar->state.load() != Bar::State::kTaken) bar = bar->next;
  if (bar != nullptr) return bar;
  bar = new Bar;
  bar->next = head_.load();
  head_.store(bar, std::memory_order_release);
  return bar;
}

int64_t advance_bar(const std::shared_ptr<Callback>& callback, int64_t run_id,
                    int32_t device, int64_t done, int64_t total) {
  Bar* bar = callback->bars->find(run_id);
  if (bar != nullptr && bar->device.load(std::memory_order_relaxed) != device) {
    return kStride;
  }
  const bool begins = done == kLoopBegins;
  const bool is_new = begins || bar == nullptr || !is_open(*bar);
  if (is_new) {
    if (done == 0) return kStride;  // reports the end of a loop that has ended already
    if (total < 0 && !begins && bar != nullptr) total = bar->total;
    if (total >= 0 && done > total) {
      // The loop has more iterations than `total` announced.
      if (bar != nullptr) done += bar->count;
      total = kUnknown;
    }
    const auto [begun, needs_watcher] = begin(callback, bar, run_id, device, total);
    bar = begun;
    if (needs_watcher) tap(callback, {});
  } else if (total >= bar->count + done) {
    bar->total.store(total, std::memory_order_relaxed);
  }
  if (begins) done = 0;
  const int64_t count = bar->count.fetch_add(done, std::memory_order_relaxed) + done;
  const int64_t time = now();
  const std::chrono::nanoseconds elapsed{time - bar->reported_at.exchange(time)};
  const bool is_short = !is_new && elapsed < kShort * done;
  const int64_t due = is_short ? kStride : 1;
  const int64_t promised = bar->total.load(std::memory_order_relaxed);
  if (promised > count) return std::min(due, promised - count);
  if (promised >= 0 && !begins) {
    std::lock_guard lock(all->mutex);
    if (is_open(*bar)) end(*bar, /*failed=*/false);
  }
  return due;
}

void fail_bars(int64_t run_id) noexcept {
  end_bars_where(/*failed=*/true, [run_id](const ShownBar& shown) {
    return shown.bar->run_id == run_id;
  });
}

void end_bars(const CallbackTable& table) {
  const auto callbacks = table.callbacks();
  end_bars_where(/*failed=*/true, [&](const ShownBar& shown) {
    return std::find(callbacks.begin(), callbacks.end(), shown.callback) !=
           callbacks.end();
  });
}

std::vector<BarSnapshot> look_at_bars() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<BarSnapshot> looks;
  std::lock_guard lock(all->mutex);
  std::erase_if(all->shown, [&](ShownBar& shown) {
    Bar& bar = *shown.bar;
    const bool has_ended = !is_open(bar);
    const std::chrono::duration<double> seconds = now - bar.since;
    looks.push_back({has_ended ? std::move(shown.callback) : shown.callback, bar.number,
                     bar.began, has_ended ? bar.ended : 0, bar.failed, bar.count,
                     bar.total, seconds.count()});
    if (has_ended) bar.state = Bar::State::kTaken;
    return has_ended;
  });
  return looks;
}

bool stop_watching() {
  std::lock_guard lock(all->mutex);
  if (!all->shown.empty()) return false;
  all->is_watched = false;
  return true;
}

void forget_bars() { all = new AllBars; }

}  // namespace bellhop
