// runtime/handlers/callback.cc: the custom calls that run a Python function.
//
// It reads the call frame itself: decoding through ffi::Binding costs as much as the
// rest of the handler.
#include <Python.h>

#include <cstring>
#include <string>

#include "bellhop/callback_table.h"
#include "bellhop/failures.h"
#include "bellhop/invocation.h"
#include "bellhop/pending_regions.h"
#include "bellhop/registry.h"
#include "bellhop/session.h"
#include "bellhop/small_array.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

namespace ffi = xla::ffi;

namespace {

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

XLA_FFI_Error* error(const XLA_FFI_Api* api, const std::string& message) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr,
                                 message.c_str(), XLA_FFI_Error_Code_INTERNAL};
  return api->XLA_FFI_Error_Create(&args);
}

// A number that circuits of the same execution have too.
int64_t run_id(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_RunId_Get_Args args{XLA_FFI_RunId_Get_Args_STRUCT_SIZE, nullptr, frame.ctx,
                              0};
  // It fails for struct sizes of another version only, which registration rules out.
  frame.api->XLA_FFI_RunId_Get(&args);
  return args.run_id;
}

// Operands and results, without the tokens of ordered calls, which hold nothing.
class Buffers {
 public:
  Buffers(void** buffers, int64_t begin, int64_t end) : views_(end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
      if (buffer.dtype == XLA_FFI_DataType_TOKEN) continue;
      views_[size_++] = {buffer.dtype, buffer.dims, buffer.rank, buffer.data,
                         /*shares_bytes=*/true};
    }
  }

  std::span<const BufferView> span() { return {views_.data(), size_}; }

 private:
  SmallArray<BufferView, 8> views_;
  size_t size_ = 0;
};

// Attributes are sorted by name.
enum Place : int64_t { kIndex, kProgram, kPython };

int64_t integer(const XLA_FFI_CallFrame& frame, Place place) {
  return *static_cast<const int64_t*>(
      static_cast<const XLA_FFI_Scalar*>(frame.attrs.attrs[place])->value);
}

std::string text(const XLA_FFI_CallFrame& frame, Place place) {
  const auto& span = *static_cast<const XLA_FFI_ByteSpan*>(frame.attrs.attrs[place]);
  return {span.ptr, span.len};
}

// The first operand, or the published table of the program where that is zero.
const CallbackTable* table_of(const XLA_FFI_CallFrame& frame) {
  const CallbackTable* table = nullptr;
  std::memcpy(&table, static_cast<XLA_FFI_Buffer*>(frame.args.args[0])->data,
              sizeof(table));
  return table != nullptr ? table
                          : CallbackTable::published_for(integer(frame, kProgram));
}

XLA_FFI_Error* not_found(const XLA_FFI_CallFrame& frame) {
  return error(
      frame.api,
      "bellhop: this process has no function for the callback '" +
          text(frame, kPython) +
          "'. A program keeps the place of its Python functions, not the functions: "
          "they are those of the jax.jit function it was lowered from, which must be "
          "lowered in this process, and still be alive, when an exported or serialized "
          "program is run");
}

XLA_FFI_Error* fail(const XLA_FFI_CallFrame& frame, const CallbackTable& table,
                    const Callback& callback, PyObject* exception) {
  std::string text = Py_TYPE(exception)->tp_name;
  if (PyObject* message = PyObject_Str(exception)) {
    if (const char* utf8 = PyUnicode_AsUTF8(message)) text += std::string(": ") + utf8;
    Py_DECREF(message);
  }
  PyErr_Clear();
  text +=
      " (raised in " + callback.description + ", called from " + callback.site + ")";
  // Circuits and regions under way in this execution do not get to their ends.
  release_run(run_id(frame));
  // Two ways to the caller: out of our own call, or out of JAX's.
  const char* failure = table.is_published() ? "plain jit failure " : "failure ";
  text += std::string(" [bellhop ") + failure +
          std::to_string(keep_failure(exception)) + "]";
  return error(frame.api, text);
}

// What XLA asks of every handler once, when it is registered.
XLA_FFI_Error* describe_handler(XLA_FFI_CallFrame* frame) {
  static const auto* described =
      ffi::Ffi::Bind().To([] { return ffi::Error::Success(); }).release();
  return described->Call(frame);
}

Callback* callback_of(const XLA_FFI_CallFrame& frame, const CallbackTable* table) {
  return table == nullptr
             ? nullptr
             : table->find(integer(frame, kProgram), integer(frame, kIndex));
}

// Threading: any XLA thread; takes the GIL for the whole call and no other lock.
// Ownership: arguments are copies, or views that must be dropped before it returns;
// results are copied into XLA's buffers, or written there through such views; the
// table is the running program's.
XLA_FFI_Error* callback_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  Buffers arguments(frame->args.args, 1, frame->args.size);
  Buffers results(frame->rets.rets, 0, frame->rets.size);

  Gil gil;
  const CallbackTable* table = table_of(*frame);
  Callback* callback = callback_of(*frame, table);
  if (callback == nullptr) return not_found(*frame);
  PyObject* exception = invoke(*callback, arguments.span(), results.span());
  return exception == nullptr ? nullptr : fail(*frame, *table, *callback, exception);
}

// Threading: as above; the region goes on, without the GIL, when it has returned.
// Ownership: what it has not copied of the arguments it must not use any more; what
// waits for the results is kept under the ticket.
XLA_FFI_Error* region_start_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  Buffers arguments(frame->args.args, 1, frame->args.size);

  Gil gil;
  const CallbackTable* table = table_of(*frame);
  Callback* callback = callback_of(*frame, table);
  if (callback == nullptr) return not_found(*frame);
  PyObject* finish = nullptr;
  PyObject* exception = start(*callback, arguments.span(), &finish);
  if (exception != nullptr) return fail(*frame, *table, *callback, exception);
  const uint64_t ticket = keep_pending(run_id(*frame), finish);
  std::memcpy(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data, &ticket,
              sizeof(ticket));
  return nullptr;
}

// Threading: as above; waits for the region without the GIL.
// Ownership: takes what waits under the ticket; the anchors after it are not read.
XLA_FFI_Error* region_done_handler(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return describe_handler(frame);
  uint64_t ticket = 0;
  std::memcpy(&ticket, static_cast<XLA_FFI_Buffer*>(frame->args.args[1])->data,
              sizeof(ticket));
  Buffers results(frame->rets.rets, 0, frame->rets.size);

  Gil gil;
  const CallbackTable* table = table_of(*frame);
  Callback* callback = callback_of(*frame, table);
  if (callback == nullptr) return not_found(*frame);
  PyObject* pending = take_pending(ticket);
  if (pending == nullptr) {
    return error(frame->api,
                 "bellhop: " + callback->description +
                     " was not started, or its results were taken already; this is an "
                     "error of bellhop, please report it");
  }
  PyObject* exception = finish(*callback, pending, results.span());
  Py_DECREF(pending);
  return exception == nullptr ? nullptr : fail(*frame, *table, *callback, exception);
}

}  // namespace

std::vector<Target> callback_targets() {
  return {{"bellhop_callback", nullptr, callback_handler},
          {"bellhop_region_start", nullptr, region_start_handler},
          {"bellhop_region_done", nullptr, region_done_handler}};
}

}  // namespace bellhop
