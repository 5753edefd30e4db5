// handlers/circuit_ffi.h: decode operands, report errors and lock sessions for the
// circuit handlers.
//
// Threading: all handlers may run on any thread, several at once, without the GIL.
// Ownership: a handler borrows its session for one call; buffers are XLA's and are not
// kept.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>

#include "circuit/session.h"
#include "devices/checked_size.h"
#include "devices/memory_limits.h"
#include "ffi/handler.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "ffi/state_handler.h"
#include "ffi/tsan_annotations.h"
#include "interpreter/failures.h"
#include "interpreter/signals.h"
#include "profile/active_calls.h"
#include "threads/thread_team.h"
#include "xla/ffi/api/ffi.h"

namespace bellhop {

using HandleBuffer = ffi::BufferR1<ffi::U32>;
using HandleResult = ffi::ResultBufferR1<ffi::U32>;

// Returns the elements of a buffer as a one-dimensional span.
template <typename Buffer>
auto span_of(const Buffer& buffer) {
  return std::span(buffer.typed_data(), count_elements(buffer, "buffer of a circuit"));
}

// Returns the two words of a handle; throws CircuitError for other sizes.
template <typename Buffer>
std::uint32_t* handle_words(const Buffer& buffer) {
  if (buffer.element_count() != 2) {
    throw CircuitError("handle of a circuit: expected 2 words, got " +
                       std::to_string(buffer.element_count()) + "." + kDamaged);
  }
  return buffer.typed_data();
}

// Read and write the circuit's handle.
inline Handle read_handle(const HandleBuffer& buffer) {
  const std::uint32_t* words = handle_words(buffer);
  return Handle{words[0], words[1]};
}

inline void write_handle(HandleResult& result, Handle handle) {
  std::uint32_t* words = handle_words(*result);
  words[0] = handle.place;
  words[1] = handle.generation;
}

// Returns the pool threads that may run tasks for a handler, during its call.
inline Helpers make_helpers(ffi::ThreadPool& pool) {
  const std::int64_t threads = pool.num_threads();
  return {threads < 1 ? 1 : static_cast<std::size_t>(threads),
          [&pool](Helpers::Task task, void* data) {
            pool.Schedule([task, data] { task(data); });
          }};
}

// Makes XLA's error for a circuit: stores the message for Python, and puts its id into
// the text.
inline ffi::Error make_circuit_error(const std::string& circuit, const char* problem) {
  std::string message = circuit.empty() ? problem : circuit + ": " + problem;
  std::string text = message + " [bellhop circuit failure ";
  text += std::to_string(keep_failure(std::move(message))) + "]";
  return ffi::Error::InvalidArgument(std::move(text));
}

// Returns the message of the exception that is being handled.
inline std::string get_exception_message() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    // Thrown by a plugin, or by a container of the circuit.
    return make_no_memory_message();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown C++ exception";
  }
}

// Return the circuit's name for errors, or an empty string if the handle is invalid.
inline std::string get_circuit_name(const HandleBuffer& buffer, ffi::RunId run) {
  if (buffer.element_count() != 2) return {};
  return get_circuit_name(read_handle(buffer), run.run_id);
}
inline std::string get_circuit_name(const Beginning& beginning, ffi::RunId /*run*/) {
  return beginning.circuit;
}

// Runs the body of a circuit handler. `circuit` is the handle or the Beginning of its
// circuit, and names it in errors. If the body throws, the whole execution has failed,
// so its other circuits are closed too; nothing else would close them.
template <typename Circuit, typename Body>
ffi::Error run_guarded(ffi::RunId run, const Circuit& circuit, Body&& body) noexcept {
  HandlerDetector::record_handler();
  const OrderedScope in_run(run_order_key(run.run_id));
  try {
    check_signals();
    std::forward<Body>(body)();
    return ffi::Error::Success();
  } catch (const Interrupted& interruption) {
    release_run(run.run_id);
    return ffi::Error::Internal(interruption.what());
  } catch (...) {
    const std::string problem = get_exception_message();
    const std::string name = get_circuit_name(circuit, run);
    release_run(run.run_id);
    return make_circuit_error(name, problem.c_str());
  }
}

// Runs the body of a handler that uses the state of a compiled call (or null).
template <typename Circuit, typename Body>
ffi::Error run_guarded(const void* state, ffi::RunId run, const Circuit& circuit,
                       Body&& body) noexcept {
  if (state != nullptr) happens_after(state);
  ffi::Error error = run_guarded(run, circuit, std::forward<Body>(body));
  if (state != nullptr) happens_before(use_order_key(state));
  return error;
}

// The operands of an operation on a circuit.
struct Operation {
  ffi::RunId run;
  const HandleBuffer& handle;
  HandleResult* after = nullptr;  // result for the handle after the operation, or null
  const void* state = nullptr;    // the state of the compiled call, or null
};

// Runs the body of an operation with exclusive access to the circuit's session.
template <typename Body>
ffi::Error with_session(const Operation& operation, Body&& body) noexcept {
  return run_guarded(operation.state, operation.run, operation.handle, [&] {
    const Handle name = read_handle(operation.handle);
    Lease lease = open_session(name, operation.run.run_id);
    const Beginning& beginning = *lease.session.beginning;
    const ActiveCircuit active(beginning.circuit, beginning.pool.name());
    std::forward<Body>(body)(lease);
    if (operation.after != nullptr) write_handle(*operation.after, name);
  });
}

// Like with_session; the operation is an error if the circuit is a batch.
template <typename Body>
ffi::Error with_one_circuit(const Operation& operation, Body&& body) noexcept {
  return with_session(operation, [&](Lease& lease) {
    require_one_circuit(lease.session);
    std::forward<Body>(body)(lease);
  });
}

// Creates the state of a compiled call with `build`. An exception becomes XLA's error,
// which names the circuit if `circuit` is not empty.
template <typename State, typename Build>
ffi::ErrorOr<std::unique_ptr<State>> instantiate(
    Build&& build, const std::string& circuit = {}) noexcept {
  try {
    std::unique_ptr<State> state = std::forward<Build>(build)();
    happens_before(state.get());
    return state;
  } catch (...) {
    return ffi::Unexpected(
        make_circuit_error(circuit, get_exception_message().c_str()));
  }
}

}  // namespace bellhop
