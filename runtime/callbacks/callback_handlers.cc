// callbacks/callback_handlers.cc: the custom calls that run a Python function.
#include <Python.h>

#include <cstring>
#include <string>

#include "callbacks/invocation.h"
#include "callbacks/lookup.h"
#include "callbacks/pending_regions.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "ffi/runs.h"
#include "interpreter/failures.h"
#include "interpreter/gil.h"
#include "interpreter/python_call.h"
#include "profile/profile.h"

namespace bellhop {

namespace {

XLA_FFI_Error* fail(const XLA_FFI_CallFrame& frame, const CallbackTable& table,
                    const Callback& callback, PyObject* exception, CallTimer& timer) {
  timer.fails();
  // Two ways to the caller: out of our own call, or out of JAX's.
  const std::string text = failure_text(
      exception, callback.description + ", called from " + callback.place.site,
      table.is_published() ? "plain jit failure" : "failure");
  // Circuits and regions under way in this execution do not get to their ends. Who
  // uses one may be waiting for the GIL.
  const NoGil no_gil;
  release_run(run_id(frame));
  return error(frame.api, text);
}

// Threading: any XLA thread; takes the GIL for the whole call and no other lock.
// Ownership: arguments and results are copied; the table is the running program's.
XLA_FFI_Error* callback_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  const InOrder in_run(buffers_of(*frame));
  if (XLA_FFI_Error* interruption = interrupted(*frame)) return interruption;
  Buffers arguments(frame->args.args, 1, frame->args.size);
  Buffers results(frame->rets.rets, 0, frame->rets.size);

  CallTimer timer;
  const PythonCall python;
  if (!python) return error(frame->api, kProcessEnds);
  timer.has_gil();
  const CallbackTable* table = nullptr;
  Callback* callback = callback_of(*frame, &table);
  if (callback == nullptr) return no_such_callback(*frame);
  int32_t ordinal;
  if (callback->takes_device) append_device(*frame, arguments, &ordinal);
  timer.of(CallTimer::Part::kCall, callback->place, arguments.span(), results.span());
  PyObject* exception = invoke(*callback, arguments.span(), results.span());
  return exception == nullptr ? nullptr
                              : fail(*frame, *table, *callback, exception, timer);
}

// Threading: as above; the region goes on, without the GIL, when it has returned.
// Ownership: arguments are copied; what waits for the results is kept under the ticket.
XLA_FFI_Error* region_start_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  const InOrder in_run(buffers_of(*frame));
  if (XLA_FFI_Error* interruption = interrupted(*frame)) return interruption;
  Buffers arguments(frame->args.args, 1, frame->args.size);

  CallTimer timer;
  const PythonCall python;
  if (!python) return error(frame->api, kProcessEnds);
  timer.has_gil();
  const CallbackTable* table = nullptr;
  Callback* callback = callback_of(*frame, &table);
  if (callback == nullptr) return no_such_callback(*frame);
  timer.of(CallTimer::Part::kStart, callback->place, arguments.span(), {});
  PyObject* finish = nullptr;
  PyObject* exception = start(*callback, arguments.span(), &finish);
  if (exception != nullptr) return fail(*frame, *table, *callback, exception, timer);
  const uint64_t ticket = keep_pending(run_id(*frame), finish);
  std::memcpy(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data, &ticket,
              sizeof(ticket));
  return nullptr;
}

// Threading: as above; waits for the region without the GIL.
// Ownership: takes what waits under the ticket; the anchors after it are not read.
XLA_FFI_Error* region_done_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  const InOrder in_run(buffers_of(*frame));
  if (XLA_FFI_Error* interruption = interrupted(*frame)) return interruption;
  uint64_t ticket = 0;
  std::memcpy(&ticket, static_cast<XLA_FFI_Buffer*>(frame->args.args[1])->data,
              sizeof(ticket));
  Buffers results(frame->rets.rets, 0, frame->rets.size);

  CallTimer timer;
  const PythonCall python;
  if (!python) return error(frame->api, kProcessEnds);
  timer.has_gil();
  const CallbackTable* table = nullptr;
  Callback* callback = callback_of(*frame, &table);
  if (callback == nullptr) return no_such_callback(*frame);
  PyObject* pending = take_pending(ticket);
  if (pending == nullptr) {
    return error(frame->api,
                 "bellhop: " + callback->description +
                     " was not started, or its results were taken already; this is an "
                     "error of bellhop, please report it");
  }
  timer.of(CallTimer::Part::kWait, callback->place, {}, results.span());
  PyObject* exception = finish(*callback, pending, results.span());
  Py_DECREF(pending);
  return exception == nullptr ? nullptr
                              : fail(*frame, *table, *callback, exception, timer);
}

}  // namespace

std::vector<Target> callback_targets() {
  return {{"bellhop_callback", nullptr, callback_handler},
          {"bellhop_region_start", nullptr, region_start_handler},
          {"bellhop_region_done", nullptr, region_done_handler}};
}

}  // namespace bellhop
