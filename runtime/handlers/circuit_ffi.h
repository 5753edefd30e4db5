// handlers/circuit_ffi.h: what the circuit handlers share at XLA's border.
//
// All of them may run on any thread, several at once, without the GIL. A handle is
// theirs for the length of one call; buffers are XLA's and are not kept.
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

// The elements of a buffer, all of them in one row.
template <typename Buffer>
auto span_of(const Buffer& buffer) {
  return std::span(buffer.typed_data(), buffer.element_count());
}

template <typename Buffer>
std::uint32_t* handle_words(const Buffer& buffer) {
  if (buffer.element_count() != 2) {
    throw CircuitError("A circuit's handle has 2 words, got " +
                       std::to_string(buffer.element_count()) + ".");
  }
  return buffer.typed_data();
}

inline Handle read_handle(const HandleBuffer& buffer) {
  const std::uint32_t* words = handle_words(buffer);
  return Handle{words[0], words[1]};
}

inline void write_handle(HandleResult& result, Handle handle) {
  std::uint32_t* words = handle_words(*result);
  words[0] = handle.place;
  words[1] = handle.generation;
}

// The threads of XLA that may help a handler, for the length of its call.
inline Helpers helpers_of(ffi::ThreadPool& pool) {
  const std::int64_t threads = pool.num_threads();
  return {threads < 1 ? 1 : static_cast<std::size_t>(threads),
          [&pool](Helpers::Task task, void* data) {
            pool.Schedule([task, data] { task(data); });
          }};
}

// The error of a circuit as XLA carries it: its message waits under the number.
inline ffi::Error failure(const std::string& circuit, const char* problem) {
  std::string message = circuit.empty() ? problem : circuit + ": " + problem;
  std::string text = message + " [bellhop circuit failure ";
  text += std::to_string(keep_failure(std::move(message))) + "]";
  return ffi::Error::InvalidArgument(std::move(text));
}

// What an exception says, from within its handler.
inline std::string message_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    // Of a plugin, or of a table of the circuit.
    return no_memory();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown C++ exception";
  }
}

inline std::string name_of(const HandleBuffer& buffer, ffi::RunId run) {
  if (buffer.element_count() != 2) return {};
  return name_of(read_handle(buffer), run.run_id);
}
inline std::string name_of(const Beginning& beginning, ffi::RunId /*run*/) {
  return beginning.circuit;
}

// Runs a handler's body for a circuit, which a handle or its beginning names. If it
// throws, its whole execution has failed, so the other circuits of that execution end
// too; nobody else would end them.
template <typename Circuit, typename Body>
ffi::Error guarded(ffi::RunId run, const Circuit& circuit, Body&& body) noexcept {
  RunsHere::one();
  const InOrder in_run(buffers_of(run.run_id));
  try {
    check_signals();
    std::forward<Body>(body)();
    return ffi::Error::Success();
  } catch (const Interrupted& interruption) {
    release_run(run.run_id);
    return ffi::Error::Internal(interruption.what());
  } catch (...) {
    const std::string problem = message_of_exception();
    const std::string name = name_of(circuit, run);
    release_run(run.run_id);
    return failure(name, problem.c_str());
  }
}

// The same for a handler that uses what it keeps for a compiled call, if it does.
template <typename Circuit, typename Body>
ffi::Error guarded(const void* state, ffi::RunId run, const Circuit& circuit,
                   Body&& body) noexcept {
  if (state != nullptr) happens_after(state);
  ffi::Error error = guarded(run, circuit, std::forward<Body>(body));
  if (state != nullptr) happens_before(uses_of(state));
  return error;
}

// An operation on the circuit that a handle names.
struct Operation {
  ffi::RunId run;
  const HandleBuffer& handle;
  HandleResult* after = nullptr;  // where the same handle goes, as the state after it
  const void* state = nullptr;    // as of guarded
};

// Runs the body of an operation with the circuit's session, which is its own meanwhile.
template <typename Body>
ffi::Error with_session(const Operation& operation, Body&& body) noexcept {
  return guarded(operation.state, operation.run, operation.handle, [&] {
    const Handle name = read_handle(operation.handle);
    Lease lease = open_session(name, operation.run.run_id);
    const Beginning& beginning = *lease.session.beginning;
    const CircuitUnderWay here(beginning.circuit, beginning.pool.name());
    std::forward<Body>(body)(lease);
    if (operation.after != nullptr) write_handle(*operation.after, name);
  });
}

// The same for an operation that there is not for a batch.
template <typename Body>
ffi::Error with_one_circuit(const Operation& operation, Body&& body) noexcept {
  return with_session(operation, [&](Lease& lease) {
    require_one_circuit(lease.session);
    std::forward<Body>(body)(lease);
  });
}

// Builds the state that a handler keeps for a compiled call, of a circuit if its name
// is known.
template <typename State, typename Build>
ffi::ErrorOr<std::unique_ptr<State>> instantiate(
    Build&& build, const std::string& circuit = {}) noexcept {
  try {
    std::unique_ptr<State> state = std::forward<Build>(build)();
    happens_before(state.get());
    return state;
  } catch (...) {
    return ffi::Unexpected(failure(circuit, message_of_exception().c_str()));
  }
}

}  // namespace bellhop
