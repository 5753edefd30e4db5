// circuit/session.h: circuits in progress, and the handles that programs hold.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "circuit/batched_view.h"
#include "circuit/dynamic_count.h"
#include "circuit/gate_numbers.h"
#include "circuit/outcome_enumeration.h"
#include "circuit/random_stream.h"
#include "circuit/sampled_executions.h"
#include "circuit/tangent_vectors.h"
#include "devices/device_pool.h"
#include "interpreter/signals.h"
#include "threads/openmp_limit.h"

namespace bellhop {

// The value that a program carries for a circuit: the index of its session, and a
// random number that identifies the circuit while it is open. Each use checks both
// words and the execution that began the circuit. Neither word is an address, so a
// stale, guessed or foreign handle is an error and never accesses memory.
struct Handle {
  std::uint32_t place = 0;
  std::uint32_t generation = 0;
};

// What the plugin has recorded for its adjoint derivatives.
struct Tape {
  static constexpr std::int64_t kNotDifferentiable = -1;

  bool recording = false;
  bool is_behind = false;  // whether gates were applied after the recording had ended
  // For each recorded operation with parameters, in the plugin's numbering: the index
  // of the differentiable parameter that it used, or kNotDifferentiable.
  std::vector<std::int64_t> parameters = {};
  // The largest differentiable parameter that occurred, the number of dynamic-count
  // parameters, and the number of recorded expectation values.
  std::int64_t last_parameter = -1;
  std::size_t dynamic_count = 0;
  std::size_t expvals = 0;
  // For error messages: a gate with a differentiable parameter but without an adjoint
  // derivative, and a gate with several parameters.
  std::string obstacle = {};
  std::string many_parameters = {};
};

class GateTable;

namespace engine {
struct Single;
enum class Precision : std::uint8_t;
}  // namespace engine

// How the measurement of a wire changes the state once its outcome is known.
struct Projection {
  std::int32_t wire = 0;
  bool outcome = false;
  bool reset = false;  // whether to bring the wire to zero afterwards
  double scale = 1;    // factor for the projected state
  bool is_postselected = false;
};

// The offset, as in the contract, of the amplitudes that the state is prepared from:
// they are the last of the circuit's parameters.
constexpr std::int32_t kLastParameters = -2;

// A sequence of gates, or a projection, that the circuit has applied or will apply
// later. The compiled executable owns the gate table, so the table outlives the
// circuit.
struct Step {
  const GateTable* gates;  // null for a projection
  std::int32_t offset;     // index of its first differentiable parameter, or negative
  std::int32_t iterations;
  // Set if the offset is negative or belongs to dynamic-count parameters, and for gates
  // that are applied later.
  PerRow<KeptNumbers> params;
  PerRow<std::vector<std::int32_t>> wires;
  Projection projection;
  // In place of `params`, of the preparation of a large state in a circuit that is no
  // batch and keeps no steps; the caller owns them.
  std::span<const float> singles = {};
};

// The attributes of a compiled bellhop_circuit_begin or bellhop_circuit_run. Outlives
// the circuits that it begins.
struct Beginning {
  DevicePool& pool;
  std::size_t qubits;
  std::size_t shots;
  bool record;  // whether to store the applied steps
  bool tape;    // whether the device also records, for its own derivatives
  bool own;     // whether derivatives are the engine's own
  Outcomes outcomes;
  std::size_t rows;
  bool engine;                  // whether the engine may execute the circuit
  engine::Precision precision;  // of the engine's amplitudes
  bool waits;                   // see Session::waits; true for a batch
  std::string circuit;          // the circuit's name in errors
};

// One circuit, from bellhop_circuit_begin to bellhop_circuit_end.
struct Session {
  std::mutex mutex;  // guards the members below
  // Drawn for each circuit; zero if the session is closed.
  std::uint32_t generation = 0;
  std::atomic<std::int64_t> run_id = 0;
  // The number of the thread that began the circuit, and the circuit's position among
  // all circuits that the thread has begun.
  std::atomic<std::uint64_t> thread = 0;
  std::atomic<std::uint64_t> serial = 0;
  // A copy of `beginning` that may be read without the lock.
  std::atomic<const void*> begun_by = nullptr;
  const Beginning* beginning = nullptr;
  std::unique_ptr<Device> device;  // null if the session is closed
  bool record = false;             // whether the plugin records for its derivatives
  bool touched = false;            // whether an operation was applied
  OutcomeEnumeration branches;
  SampledExecutions runs;      // used unless outcomes are enumerated
  bool device_failed = false;  // the plugin threw; the device must not be reused
  Tape tape;
  bool keeps_steps = false;
  std::vector<Step> steps;
  // Whether gates are stored, and applied only when something is measured. The device
  // then has no qubits: each thread that executes rows of a batch takes a device of its
  // own.
  bool waits = false;
  std::size_t rows = 0;  // of a batch; zero for a single circuit
  // Whether the parameters of gates stay valid until the circuit has ended, as they do
  // if one call runs the whole circuit; gates then refer to them without copies.
  bool borrows = false;
  // The engine's state of a single circuit whose gates are stored; null before the
  // engine begins.
  std::shared_ptr<engine::Single> in_engine;
  // Whether the engine has applied steps that the session no longer stores, so that
  // the plugin cannot take the circuit over.
  bool has_forgotten = false;
  std::size_t qubits = 0;
  DynamicCount dynamic_count;
  TangentVectors directions;

  // Runs a step of the circuit. Exceptions become a CircuitError that begins with
  // describe(). An exception other than CircuitError comes from the plugin, and marks
  // the device for destruction.
  template <typename Describe, typename Step>
  decltype(auto) attempt(Describe&& describe, Step&& step) {
    try {
      return step();
    } catch (const Interrupted&) {
      throw;
    } catch (const CircuitError& error) {
      throw CircuitError(describe() + ": " + error.what());
    } catch (const std::exception& error) {
      device_failed = true;
      throw CircuitError(describe() + ": the device raised an error: " + error.what());
    } catch (...) {
      device_failed = true;
      throw CircuitError(
          describe() +
          ": the device raised a C++ exception without a message. "
          "Report this to the authors of the device, or use another device.");
    }
  }
};

// Exclusive access to an open session.
struct Lease {
  Session& session;
  std::unique_lock<std::mutex> lock;
  OpenMpLimit team;
  Session* operator->() const { return &session; }
};

// The functions below may be called from any thread.
//
// Opens a session and takes a device for it. `beginning` must outlive the session;
// `seed` seeds the device's generator, if given; `run_id` is XLA's identifier of the
// execution, which owns the session. Throws CircuitError.
Handle begin_session(const Beginning& beginning, std::optional<Seed> seed,
                     std::int64_t run_id);
// Locks the session of a handle. Throws CircuitError unless the handle belongs to an
// open circuit of the execution.
Lease open_session(Handle handle, std::int64_t run_id);
// Returns the circuit's name for errors, or an empty string if the handle is invalid.
std::string get_circuit_name(Handle handle, std::int64_t run_id);
// Returns how many columns a table needs for the dynamic-count parameters of some
// steps: the largest index of such a parameter, plus one.
std::size_t dynamic_count_columns(std::span<const Step> steps);
// Returns whether a plugin records the circuit. A plugin's recording does not support
// samples and projections, so circuits with these are executed again for their
// derivatives.
bool is_for_tape(const Beginning& beginning);
// Gives a single circuit whose gates are stored a device with its qubits, in the zero
// state; further gates are applied at once.
void stop_waiting(Session& session);
// Throws CircuitError if the circuit is a batch, for operations that do not support
// batches.
void require_one_circuit(const Session& session);
// Closes a session and returns its device to the pool.
void end_session(Handle handle, std::int64_t run_id);

// Closes all sessions of a failed execution. Waits for a session that is executing an
// operation.
void end_sessions(std::int64_t run_id) noexcept;

// Closes all sessions that a compiled begin has opened and its program did not close.
// Called before the begin is freed: XLA frees an executable after its last execution.
void end_sessions_begun_by(const Beginning& beginning) noexcept;

// Its destructor closes the sessions that this thread has opened since construction and
// that are still open. If XLA runs a program on its caller's thread, the program has
// ended when the call returns, so such sessions belong to programs that left them open.
class CallSessions {
 public:
  CallSessions() : before_(begun_here_) {}
  ~CallSessions() {
    if (begun_here_ != before_) [[unlikely]]
      end_left_open();
  }
  CallSessions(const CallSessions&) = delete;
  CallSessions& operator=(const CallSessions&) = delete;

 private:
  friend Handle begin_session(const Beginning&, std::optional<Seed>, std::int64_t);

  void end_left_open() noexcept;

  static thread_local constinit inline std::uint64_t begun_here_ = 0;
  std::uint64_t before_;
};

// Returns the number of open sessions.
std::size_t live_sessions() noexcept;

}  // namespace bellhop
