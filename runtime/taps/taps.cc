// taps/taps.cc: the custom call that queues a tap, and the thread that makes the calls.
#include "taps/taps.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "callbacks/invocation.h"
#include "callbacks/lookup.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "interpreter/gil.h"
#include "interpreter/python_call.h"
#include "profile/profile.h"
#include "taps/tap_queue.h"

namespace bellhop {
namespace {

// The period of signal checks while the main thread waits; other threads receive no
// signals.
constexpr std::chrono::milliseconds kSignals{50};
constexpr std::chrono::seconds kPatience{1};
// How long close_taps() waits before it prints a message.
constexpr std::chrono::seconds kSilence{2};

constexpr size_t kDefaultLimit = 256'000'000;
// Exceptions keep frames, and thereby arguments, alive. So only the first ones and the
// latest one are stored.
constexpr size_t kMostExceptions = 100;

// A holder of the mutex takes no other lock.
std::mutex failures_mutex;
TapFailures failures;

// Stores an exception for take_tap_failures(). Steals the reference. Needs the GIL.
void record_failure(PyObject* exception) {
  PyObject* dropped = nullptr;
  {
    const std::lock_guard lock(failures_mutex);
    if (failures.exceptions.size() < kMostExceptions) {
      failures.exceptions.push_back(exception);
    } else {
      ++failures.dropped;
      dropped = std::exchange(failures.exceptions.back(), exception);
    }
  }
  Py_XDECREF(dropped);
}

// Offers the GIL to waiting threads between calls, such as the thread of a program that
// has ended: they request it only after five milliseconds. A thread that is woken by a
// release comes too late if the GIL is taken again at once. Waking a thread takes a
// system call, so a release that took long indicates a waiting thread, and is followed
// by a pause. The next offer comes after this thread has held the GIL for as long as
// the other threads held it. Otherwise a thread that computes would hold it nearly all
// the time.
class GilYielder {
 public:
  // Releases the GIL if an offer is due. Called after each call.
  void yield_if_due() {
    // Reading the clock takes a good part of the time of a call, so only every fourth
    // call does it.
    if (++calls_ % 4 != 0) return;
    const auto began = Clock::now();
    if (began < after_) return;
    Clock::time_point released;
    {
      NoGil no_gil;
      released = Clock::now();
      if (released - began > kWakes) std::this_thread::sleep_for(kPause);
    }
    const auto now = Clock::now();
    after_ = now + std::max<Clock::duration>(now - released, kHold);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds kWakes{500};
  static constexpr std::chrono::microseconds kPause{10};
  static constexpr std::chrono::microseconds kHold{5};

  unsigned calls_ = 0;
  Clock::time_point after_;
};

// Makes the queued calls until the queue is closed.
// Threading: runs on the consumer's thread; holds the GIL for one chunk at a time.
// Ownership: functions receive copies of the arguments; the last record of a chunk that
// shares a callback releases it, under the GIL.
void consume(TapQueue& queue) {
  Gil gil;
  while (true) {
    TapChunk* chunk = nullptr;
    int64_t taken = 0;
    {
      NoGil no_gil;
      chunk = queue.take();
      if (is_profiled()) taken = profile_clock();
    }
    if (chunk == nullptr) return;
    // The time that the chunk waited for the GIL counts for its first call.
    int64_t waited = taken == 0 ? 0 : profile_clock() - taken;
    GilYielder gil_yielder;
    queue.consume(
        chunk, [&](Callback& callback, std::span<const BufferView> arguments) {
          if (queue.is_abandoned()) return;
          CallTimer timer;
          timer.describe(CallTimer::Part::kTapped, callback.call_site, arguments, {});
          timer.add_wait(std::exchange(waited, 0));
          if (PyObject* exception = invoke(callback, arguments, {})) {
            timer.mark_failed();
            record_failure(exception);
          }
          gil_yielder.yield_if_due();
        });
  }
}

// Never destroyed, because its thread may outlive static objects. Replaced in the child
// of a fork, where no other thread runs.
TapQueue* queue = new TapQueue(consume, kDefaultLimit);

// Makes a call on the calling thread, after the queue was closed at exit. Reports
// exceptions as unraisable. Throws std::runtime_error if no Python call may start.
void call_now(Callback& callback, std::span<const BufferView> arguments) {
  const PythonCall python;
  if (!python) throw std::runtime_error(kProcessEnds);
  PyObject* exception = invoke(callback, arguments, {});
  if (exception == nullptr) return;
  PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
  PyErr_WriteUnraisable(callback.function);
}

// Threading: any XLA thread; never takes the GIL. Blocks while the queue is full.
// Ownership: copies the arguments; the queued record shares the ownership of the
// callback.
XLA_FFI_Error* tap_handler(XLA_FFI_CallFrame* frame) {
  return run_callback_handler(frame, [&]() -> XLA_FFI_Error* {
    if (!has_leading_handles(*frame, 1)) return make_contract_error(*frame);
    Buffers arguments(frame->args.args, 1, frame->args.size);
    std::shared_ptr<Callback> published;
    const std::shared_ptr<Callback>* callback = shared_callback(*frame, published);
    if (callback == nullptr) return make_missing_callback_error(*frame);
    int32_t ordinal;
    if ((*callback)->takes_device) append_device(*frame, arguments, &ordinal);
    CallTimer timer;
    timer.describe(CallTimer::Part::kTap, (*callback)->call_site, arguments.span(), {});
    try {
      tap(*callback, arguments.span());
    } catch (const std::exception& exception) {
      release_run(run_id(*frame));
      return error(frame->api, std::string(exception.what()) + " (tap of " +
                                   (*callback)->description + ", called from " +
                                   (*callback)->call_site.site + ")");
    }
    return nullptr;
  });
}

const Target kTap("bellhop_tap", tap_handler);

}  // namespace

void tap(const std::shared_ptr<Callback>& callback,
         std::span<const BufferView> arguments) {
  if (!queue->push(callback, arguments)) call_now(*callback, arguments);
}

bool wait_for_taps(bool is_patient) {
  if (queue->is_consumer()) return true;
  const uint64_t count = queue->issued();
  uint64_t consumed = queue->consumed();
  auto since = std::chrono::steady_clock::now();
  while (true) {
    {
      NoGil no_gil;
      if (queue->wait_for(count, kSignals)) return true;
    }
    if (PyErr_CheckSignals() != 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(consumed, queue->consumed()) != queue->consumed()) since = now;
    if (!is_patient && now - since > kPatience) return true;
  }
}

TapFailures take_tap_failures() {
  const std::lock_guard lock(failures_mutex);
  return std::exchange(failures, {});
}

size_t tap_limit() { return queue->limit(); }

size_t set_tap_limit(size_t bytes) { return queue->set_limit(bytes); }

uint64_t waiting_taps() {
  const uint64_t over = queue->consumed();
  return queue->issued() - over;
}

bool close_taps(int seconds) {
  queue->close();
  const auto since = std::chrono::steady_clock::now();
  bool has_warned = false;
  bool is_abandoned = false;
  while (true) {
    {
      NoGil no_gil;
      if (queue->join(kSignals)) return true;
    }
    if (PyErr_CheckSignals() != 0) return false;
    const auto waited = std::chrono::steady_clock::now() - since;
    const unsigned long long left = waiting_taps();
    if (is_abandoned) {
      // The active call may never return; its thread ends with the process.
      if (waited > std::chrono::seconds(seconds) + kSilence) return true;
    } else if (waited > std::chrono::seconds(seconds)) {
      is_abandoned = true;
      queue->abandon();
      PySys_FormatStderr(
          "bellhop: the process ends, and the last %llu taps are not called; "
          "barrier_wait() waits for all\n",
          left);
    } else if (!has_warned && waited > kSilence) {
      has_warned = true;
      PySys_FormatStderr(
          "bellhop: the process ends when the %llu taps that wait are called, in %d s "
          "at "
          "the latest (BELLHOP_TAP_EXIT_SECONDS); Ctrl-C ends it at once\n",
          left, seconds);
    }
  }
}

void forget_taps() {
  // The old queue is leaked: a thread of the parent process may hold its mutex.
  queue = new TapQueue(consume, queue->limit());
  for (PyObject* exception : take_tap_failures().exceptions) Py_DECREF(exception);
}

}  // namespace bellhop
