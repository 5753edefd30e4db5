// callbacks/native_handler.cc: the custom call that runs a C function.
#include <memory>

#include "callbacks/lookup.h"
#include "ffi/call_frame.h"
#include "ffi/registry.h"
#include "native/native_function.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Returns the XLA threads that may run tasks for a call.
Helpers xla_threads(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_ThreadPool_NumThreads_Args count{
      XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr, frame.ctx, nullptr};
  int64_t threads = 0;
  count.num_threads = &threads;
  if (XLA_FFI_Error* failed = frame.api->XLA_FFI_ThreadPool_NumThreads(&count)) {
    XLA_FFI_Error_Destroy_Args destroy{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr,
                                       failed};
    frame.api->XLA_FFI_Error_Destroy(&destroy);
  }
  if (threads <= 1) return {};
  return {static_cast<size_t>(threads), [&frame](Helpers::Task task, void* data) {
            XLA_FFI_ThreadPool_Schedule_Args schedule{
                XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame.ctx, task,
                data};
            frame.api->XLA_FFI_ThreadPool_Schedule(&schedule);
          }};
}

// The handler of bellhop_native.
// Threading: any XLA thread, without the GIL. In a plain jax.jit it takes the lock of
// the published tables; otherwise it takes no lock. A thread-safe function runs on
// XLA's threads too.
// Ownership: arguments and results are the program's buffers, for the duration of the
// call. The table owns the function; for a published table the handler shares it.
XLA_FFI_Error* native_handler(XLA_FFI_CallFrame* frame) {
  return run_callback_handler(frame, [&]() -> XLA_FFI_Error* {
    if (!has_leading_handles(*frame, 1)) return make_contract_error(*frame);
    CallTimer timer;
    std::shared_ptr<Callback> published;
    const std::shared_ptr<Callback>* callback = shared_callback(*frame, published);
    if (callback == nullptr) return make_missing_callback_error(*frame);
    const NativeFunction* const function = (*callback)->native.get();
    Buffers arguments(frame->args.args, 1, frame->args.size);
    Buffers results(frame->rets.rets, 0, frame->rets.size);
    if (function == nullptr || !function->fits(arguments.span(), results.span())) {
      return error(frame->api, "bellhop: " + (*callback)->description +
                                   ": the types or shapes of the program's buffers "
                                   "differ from the native function's declaration");
    }
    timer.describe(CallTimer::Part::kCall, (*callback)->call_site, arguments.span(),
                   results.span());
    function->call(arguments.span(), results.span(),
                   function->is_thread_safe() ? xla_threads(*frame) : Helpers{});
    return nullptr;
  });
}

const Target kNative("bellhop_native", native_handler);

}  // namespace
}  // namespace bellhop
