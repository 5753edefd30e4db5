// callbacks/callback_handlers.cc: the custom calls that run a Python function.
#include <Python.h>

#include <cstring>
#include <memory>
#include <string>

#include "callbacks/invocation.h"
#include "callbacks/lookup.h"
#include "callbacks/pending_regions.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "interpreter/failures.h"
#include "interpreter/gil.h"
#include "interpreter/python_call.h"
#include "profile/profile.h"

namespace bellhop {

namespace {

// An active call of a callback.
struct Call {
  const XLA_FFI_CallFrame& frame;
  Callback& callback;
  bool is_published;
  CallTimer& timer;

  // Returns the handler's result: null without an exception, otherwise the XLA error,
  // after the execution's resources were released. Steals the reference.
  XLA_FFI_Error* end(PyObject* exception) const {
    if (exception == nullptr) return nullptr;
    timer.mark_failed();
    // Python finds the exception by this mark, which depends on whether Bellhop or JAX
    // calls the program.
    const std::string text = make_failure_text(
        exception, callback.description + ", called from " + callback.call_site.site,
        is_published ? "plain jit failure" : "failure");
    // Circuits and regions of this execution will not reach their own ends. A thread
    // that uses one of them may be waiting for the GIL, so it is released here.
    const NoGil no_gil;
    release_run(run_id(frame));
    return error(frame.api, text);
  }
};

// Looks up the callback of a handler's call, takes the GIL and runs the body with a
// Call.
template <typename Body>
XLA_FFI_Error* run_python_handler(XLA_FFI_CallFrame* frame, Body&& body) {
  return run_callback_handler(frame, [&]() -> XLA_FFI_Error* {
    if (!has_leading_handles(*frame, 1)) return make_contract_error(*frame);
    CallTimer timer;
    const PythonCall python;
    if (!python) return error(frame->api, kProcessEnds);
    timer.mark_gil_taken();
    const CurrentRun run(*frame, program_call(*frame));
    std::shared_ptr<Callback> published;
    const std::shared_ptr<Callback>* callback = shared_callback(*frame, published);
    if (callback == nullptr) return make_missing_callback_error(*frame);
    return body(Call{*frame, **callback, published != nullptr, timer});
  });
}

Buffers get_arguments(const XLA_FFI_CallFrame& frame) {
  return Buffers(frame.args.args, 1, frame.args.size);
}

Buffers get_results(const XLA_FFI_CallFrame& frame) {
  return Buffers(frame.rets.rets, 0, frame.rets.size);
}

// The handler of bellhop_callback.
// Threading: any XLA thread; holds the GIL for the whole call and no other lock.
// Ownership: copies arguments and results, unless the callback is in place; the running
// program's table owns the callback.
XLA_FFI_Error* callback_handler(XLA_FFI_CallFrame* frame) {
  return run_python_handler(frame, [&](const Call& call) {
    Buffers arguments = get_arguments(*frame);
    Buffers results = get_results(*frame);
    int32_t ordinal;
    if (call.callback.takes_device) append_device(*frame, arguments, &ordinal);
    call.timer.describe(CallTimer::Part::kCall, call.callback.call_site,
                        arguments.span(), results.span());
    return call.end(invoke(call.callback, arguments.span(), results.span()));
  });
}

// The handler of bellhop_region_start.
// Threading: any XLA thread; holds the GIL for the call. The region continues, without
// the GIL, after the handler has returned.
// Ownership: copies arguments; stores the function that waits for the results under the
// future.
XLA_FFI_Error* region_start_handler(XLA_FFI_CallFrame* frame) {
  return run_python_handler(frame, [&](const Call& call) -> XLA_FFI_Error* {
    Buffers arguments = get_arguments(*frame);
    call.timer.describe(CallTimer::Part::kStart, call.callback.call_site,
                        arguments.span(), {});
    if (frame->rets.size < 1 || !is_handle_buffer(frame->rets.rets[0]))
      return make_contract_error(*frame);
    PyObject* finish = nullptr;
    PyObject* exception = start_region(call.callback, arguments.span(), &finish);
    if (exception != nullptr) return call.end(exception);
    const uint64_t future = keep_pending(finish);
    std::memcpy(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data, &future,
                sizeof(future));
    return call.end(nullptr);
  });
}

// The handler of bellhop_region_done.
// Threading: any XLA thread; holds the GIL for the call, and waits for the region
// without the GIL.
// Ownership: takes the function that is stored under the future; does not read the
// anchors that follow it.
XLA_FFI_Error* region_done_handler(XLA_FFI_CallFrame* frame) {
  return run_python_handler(frame, [&](const Call& call) -> XLA_FFI_Error* {
    if (!has_leading_handles(*frame, 2)) return make_contract_error(*frame);
    uint64_t future = 0;
    std::memcpy(&future, static_cast<XLA_FFI_Buffer*>(frame->args.args[1])->data,
                sizeof(future));
    PyObject* pending = take_pending(future);
    if (pending == nullptr) {
      return error(
          frame->api,
          "bellhop: internal error: the region of " + call.callback.description +
              " was not started, or its results were taken twice. Please report this "
              "as a bug in Bellhop.");
    }
    Buffers results = get_results(*frame);
    call.timer.describe(CallTimer::Part::kWait, call.callback.call_site, {},
                        results.span());
    PyObject* exception = finish_region(call.callback, pending, results.span());
    Py_DECREF(pending);
    return call.end(exception);
  });
}

// The handler of bellhop_region_release.
// Threading: any XLA thread; holds the GIL for the call.
// Ownership: drops the value that is stored under the handle; does not read the anchors
// that follow it.
XLA_FFI_Error* region_release_handler(XLA_FFI_CallFrame* frame) {
  return run_callback_handler(frame, [&]() -> XLA_FFI_Error* {
    const PythonCall python;
    if (!python) return error(frame->api, kProcessEnds);
    if (!has_leading_handles(*frame, 2)) return make_contract_error(*frame);
    uint64_t handle = 0;
    std::memcpy(&handle, static_cast<XLA_FFI_Buffer*>(frame->args.args[1])->data,
                sizeof(handle));
    Py_XDECREF(take_pending(handle));
    return nullptr;
  });
}

const Target kCallback("bellhop_callback", callback_handler);
const Target kRegionStart("bellhop_region_start", region_start_handler);
const Target kRegionDone("bellhop_region_done", region_done_handler);
const Target kRegionRelease("bellhop_region_release", region_release_handler);

}  // namespace

}  // namespace bellhop
