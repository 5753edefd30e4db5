// callbacks/native_handler.cc: the custom call that runs a C function.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "arrays/small_array.h"
#include "callbacks/callback_table.h"
#include "callbacks/lookup.h"
#include "ffi/call_frame.h"
#include "ffi/handler.h"
#include "ffi/joint_runs.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "ffi/tsan_annotations.h"
#include "interpreter/signals.h"
#include "native/native_function.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Functions of qjit programs that this thread has called. Looking one up in the tables
// takes a lock.
class FoundFunctions {
 public:
  struct Entry {
    int64_t program;
    int64_t index;
    uint64_t generation;  // of the tables; 0 if nothing was found
    const NativeFunction* function;
    NativeFunction::ScalarCall scalar;
  };

  // Returns the function that the call's attributes name, or null if it is not in the
  // table of a qjit program. Valid during the call, as the table outlives it.
  [[gnu::always_inline]] static const Entry* find(const XLA_FFI_CallFrame& frame) {
    const int64_t program = program_key(frame);
    const int64_t index = callback_index(frame);
    // Keys are hashes, and indices of one program follow each other.
    const auto hash = static_cast<uint64_t>(program) + static_cast<uint64_t>(index);
    Entry& entry = here_[hash % kEntries];
    if (entry.generation == CallbackTable::generation() && entry.program == program &&
        entry.index == index) [[likely]] {
      return &entry;
    }
    return find_in_tables(entry, program, index);
  }

 private:
  static constexpr size_t kEntries = 64;

  [[gnu::noinline]] static const Entry* find_in_tables(Entry& entry, int64_t program,
                                                       int64_t index) {
    // Read first: if a program comes or goes meanwhile, the next call looks again.
    const uint64_t generation = CallbackTable::generation();
    const Callback* const callback = CallbackTable::find_unique(program, index);
    if (callback == nullptr || callback->native == nullptr) return nullptr;
    const NativeFunction& function = *callback->native;
    entry = {program, index, generation, &function, function.scalar_call()};
    return &entry;
  }

  static thread_local constinit inline std::array<Entry, kEntries> here_{};
};

void destroy(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_Destroy_Args args{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr,
                                  error};
  api->XLA_FFI_Error_Destroy(&args);
}

// Returns the XLA threads that may run tasks for a call.
Helpers xla_threads(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_ThreadPool_NumThreads_Args count{
      XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr, frame.ctx, nullptr};
  int64_t threads = 0;
  count.num_threads = &threads;
  if (XLA_FFI_Error* failed = frame.api->XLA_FFI_ThreadPool_NumThreads(&count)) {
    destroy(frame.api, failed);
  }
  if (threads <= 1) return {};
  return {static_cast<size_t>(threads), [&frame](Helpers::Task task, void* data) {
            XLA_FFI_ThreadPool_Schedule_Args schedule{
                XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame.ctx, task,
                data};
            frame.api->XLA_FFI_ThreadPool_Schedule(&schedule);
          }};
}

// Stores the addresses of buffers from `operand` on, without tokens, if they fit the
// function's operands.
bool collect(const NativeFunction& function, void* const* buffers, int64_t count,
             SmallArray<char*, 8>& data, size_t& operand) {
  for (int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    if (buffer.dtype == XLA_FFI_DataType_TOKEN) continue;
    if (operand == data.size() ||
        !function.fits(operand, buffer.dtype, buffer.dims, buffer.rank)) {
      return false;
    }
    data[operand++] = static_cast<char*>(buffer.data);
  }
  return true;
}

// Calls a function with the buffers of a frame. Returns false, without a call, if types
// or shapes of the buffers differ from the function's description.
[[gnu::noinline]] bool call_with_buffers(const NativeFunction& function,
                                         const XLA_FFI_CallFrame& frame) {
  SmallArray<char*, 8> data(function.n_operands());
  size_t operand = 0;
  if (!collect(function, frame.args.args, frame.args.size, data, operand) ||
      operand != function.n_arguments() ||
      !collect(function, frame.rets.rets, frame.rets.size, data, operand) ||
      operand != data.size()) {
    return false;
  }
  function.call(data.data(), function.shares_rows() ? xla_threads(frame) : Helpers{});
  return true;
}

// Calls a function of scalars. False, without a call, where the buffers are not those
// that the function was described with.
[[gnu::always_inline]] inline bool call_with_scalars(
    const NativeFunction::ScalarCall& scalar, const XLA_FFI_CallFrame& frame) {
  char* data[kMostScalars + 1];
  if (frame.args.size != scalar.n_arguments || frame.rets.size != 1) return false;
  const auto take = [&](const void* at, int64_t operand) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(at);
    data[operand] = static_cast<char*>(buffer.data);
    return buffer.dtype == scalar.dtype && buffer.rank == 0;
  };
  for (int64_t i = 0; i < scalar.n_arguments; ++i) {
    if (!take(frame.args.args[i], i)) return false;
  }
  if (!take(frame.rets.rets[0], scalar.n_arguments)) return false;
  scalar.call(scalar.address, data);
  return true;
}

// Makes a call of a qjit program that is not watched: no profile is open, no signal is
// due, and no device waits for another. False, without a call, in all other cases.
[[gnu::always_inline]] inline bool call_unwatched(const XLA_FFI_CallFrame& frame) {
  if (frame.extension_start != nullptr || JointRun::any() || is_profiled() ||
      signals_are_due.load(std::memory_order_relaxed) || kIsThreadSanitized) {
    return false;
  }
  const FoundFunctions::Entry* const found = FoundFunctions::find(frame);
  if (found == nullptr) return false;
  HandlerDetector::record_handler();
  return found->scalar.call == nullptr ? call_with_buffers(*found->function, frame)
                                       : call_with_scalars(found->scalar, frame);
}

const void* find_published_table_of(const XLA_FFI_CallFrame& frame) {
  return CallbackTable::find_published_table(program_key(frame));
}

[[gnu::noinline]] XLA_FFI_Error* call_watched(XLA_FFI_CallFrame* frame) {
  const auto body = [&]() -> XLA_FFI_Error* {
    CallTimer timer;
    const std::shared_ptr<Callback> callback =
        CallbackTable::find_published(program_key(*frame), callback_index(*frame));
    if (callback == nullptr) return make_missing_callback_error(*frame);
    const NativeFunction* const function = callback->native.get();
    Buffers arguments(frame->args.args, 0, frame->args.size);
    Buffers results(frame->rets.rets, 0, frame->rets.size);
    timer.describe(CallTimer::Part::kCall, callback->call_site, arguments.span(),
                   results.span());
    if (function == nullptr || !call_with_buffers(*function, *frame)) {
      return error(frame->api, "bellhop: internal error: " + callback->description +
                                   ": the program's buffers differ in number, dtype or "
                                   "shape from the operands that the native function "
                                   "declares. Please report this as a bug in Bellhop.");
    }
    return nullptr;
  };
  return run_jointly(frame, find_published_table_of,
                     [&] { return run_handler(frame, body); });
}

// Threading: any XLA thread, without the GIL; takes no lock in a qjit program, and that
// of the published tables in a plain jax.jit. A thread-safe function runs on XLA's
// threads too.
// Ownership: arguments and results are the program's buffers, for the length of the
// call. The table, or for a published one the handler, keeps the function.
XLA_FFI_Error* native_handler(XLA_FFI_CallFrame* frame) {
  if (call_unwatched(*frame)) [[likely]]
    return nullptr;
  return call_watched(frame);
}

const Target kNative("bellhop_native", native_handler);

}  // namespace
}  // namespace bellhop
