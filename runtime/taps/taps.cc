// taps/taps.cc: the custom call that leaves a call to another thread.
#include "taps/taps.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "callbacks/invocation.h"
#include "callbacks/lookup.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "ffi/runs.h"
#include "interpreter/gil.h"
#include "interpreter/python_call.h"
#include "profile/profile.h"
#include "taps/tap_queue.h"

namespace bellhop {
namespace {

// Signals are looked for this often; only the main thread sees any.
constexpr std::chrono::milliseconds kSignals{50};
constexpr std::chrono::seconds kPatience{1};

constexpr size_t kDefaultLimit = 256'000'000;
// Exceptions hold frames, and so arguments: the first ones and the last one are kept.
constexpr size_t kKept = 100;

// Who holds the mutex takes no other lock.
std::mutex failures_mutex;
TapFailures failures;

void keep(PyObject* exception) {
  PyObject* dropped = nullptr;
  {
    const std::lock_guard lock(failures_mutex);
    if (failures.exceptions.size() < kKept) {
      failures.exceptions.push_back(exception);
    } else {
      ++failures.dropped;
      dropped = std::exchange(failures.exceptions.back(), exception);
    }
  }
  Py_XDECREF(dropped);
}

// Lets the interpreter hand the GIL over where another thread asks for it, as it does
// between the instructions of Python; functions of C never do. To release the GIL and
// take it again would starve the others: each release starts their five milliseconds of
// waiting, after which they ask, anew.
class Yields {
 public:
  void next() {
    // The clock costs as much as a good part of a call.
    if (++calls_ % 4 != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - since_ < kHold) return;
    run_an_instruction();
    since_ = std::chrono::steady_clock::now();
  }

 private:
  static constexpr std::chrono::milliseconds kHold{1};

  static void run_an_instruction() {
    static PyObject* const code = Py_CompileString("None", "<bellhop>", Py_eval_input);
    static PyObject* const globals = PyDict_New();
    PyObject* none = PyEval_EvalCode(code, globals, globals);
    if (none == nullptr) PyErr_WriteUnraisable(code);
    Py_XDECREF(none);
  }

  unsigned calls_ = 0;
  std::chrono::steady_clock::time_point since_;
};

// Threading: the consumer's thread; holds the GIL for one chunk after another.
// Ownership: functions get copies of the arguments, and callbacks go with the last
// record that shares them, under the GIL.
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
    // The first call of a chunk waits for the GIL, for all of them.
    int64_t waited = taken == 0 ? 0 : profile_clock() - taken;
    Yields yields;
    queue.consume(chunk,
                  [&](Callback& callback, std::span<const BufferView> arguments) {
                    CallTimer timer;
                    timer.of(CallTimer::Part::kTapped, callback.place, arguments, {});
                    timer.has_waited(std::exchange(waited, 0));
                    if (PyObject* exception = invoke(callback, arguments, {})) {
                      timer.fails();
                      keep(exception);
                    }
                    yields.next();
                  });
  }
}

// Never destroyed: its thread may outlive everything. Replaced in the child of a fork,
// where no other thread runs.
TapQueue* queue = new TapQueue(consume, kDefaultLimit);

// After the queue was closed, so at the end of the process.
void call_now(Callback& callback, std::span<const BufferView> arguments) {
  const PythonCall python;
  if (!python) throw std::runtime_error(kProcessEnds);
  PyObject* exception = invoke(callback, arguments, {});
  if (exception == nullptr) return;
  PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
  PyErr_WriteUnraisable(callback.function);
}

// Threading: any XLA thread; never takes the GIL. It waits where the queue is full.
// Ownership: the arguments are copied, and the record shares the callback.
XLA_FFI_Error* tap_handler(XLA_FFI_CallFrame* frame) {
  return handled(frame, [&]() -> XLA_FFI_Error* {
    Buffers arguments(frame->args.args, 1, frame->args.size);
    std::shared_ptr<Callback> published;
    const std::shared_ptr<Callback>* callback = shared_callback(*frame, published);
    if (callback == nullptr) return no_such_callback(*frame);
    int32_t ordinal;
    if ((*callback)->takes_device) append_device(*frame, arguments, &ordinal);
    CallTimer timer;
    timer.of(CallTimer::Part::kTap, (*callback)->place, arguments.span(), {});
    try {
      tap(*callback, arguments.span());
    } catch (const std::exception& exception) {
      release_run(run_id(*frame));
      return error(frame->api, std::string(exception.what()) + " (tap of " +
                                   (*callback)->description + ", called from " +
                                   (*callback)->place.site + ")");
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

bool close_taps() {
  if (!wait_for_taps(/*is_patient=*/true)) return false;
  queue->close();
  while (true) {
    {
      NoGil no_gil;
      if (queue->join(kSignals)) return true;
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
}

void forget_taps() {
  // The old one is left as it is: its mutex may be locked by a thread that is no more.
  queue = new TapQueue(consume, queue->limit());
  for (PyObject* exception : take_tap_failures().exceptions) Py_DECREF(exception);
}

}  // namespace bellhop
