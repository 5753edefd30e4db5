// circuit/session.h: circuits in progress, and the handles that name them.
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
#include "circuit/outcome_enumeration.h"
#include "circuit/random_stream.h"
#include "circuit/sampled_executions.h"
#include "circuit/tangent_vectors.h"
#include "devices/device_pool.h"
#include "interpreter/signals.h"
#include "threads/openmp_limit.h"

namespace bellhop {

// The value that a program carries for a circuit: the place of its session, and a
// random number that the session has as long as its circuit is open. Every use checks
// both words and the run that began the circuit, and neither word is an address: a
// stale, guessed or foreign handle is an error and never touches memory.
struct Handle {
  std::uint32_t place = 0;
  std::uint32_t generation = 0;
};

// What the plugin has recorded, in our terms.
struct Tape {
  static constexpr std::int64_t kNotDifferentiable = -1;

  bool recording = false;
  bool is_behind = false;  // gates were applied after the recording ended
  // One entry a recorded operation with parameters, which is how plugins number
  // them: the differentiable parameter it used, or kNotDifferentiable.
  std::vector<std::int64_t> parameters = {};
  // The largest differentiable parameter seen, how many dynamic-count ones there are,
  // and expectation values recorded.
  std::int64_t last_parameter = -1;
  std::size_t dynamic_count = 0;
  std::size_t expvals = 0;
  // A gate that has a differentiable parameter and no adjoint derivative, and one
  // that has several parameters: for error messages.
  std::string obstacle = {};
  std::string many_parameters = {};
};

class GateTable;

namespace engine {
struct Single;
enum class Precision : std::uint8_t;
}  // namespace engine

// What a measurement of one wire does to the state where its outcome is chosen.
struct Projection {
  std::int32_t wire = 0;
  bool outcome = false;
  bool reset = false;  // bring the wire to zero afterwards
  double scale = 1;    // what is left is multiplied by
  bool is_postselected = false;
};

// The offset of parameters that are the last of the circuit's, as in the contract: the
// amplitudes that its state is prepared from.
constexpr std::int32_t kLastParameters = -2;

// A run of gates that was applied or waits, or a projection, for when the circuit is
// run (again). The table is that of the executable which runs, so it outlives the
// circuit.
struct Step {
  const GateTable* gates;  // null: a projection
  std::int32_t offset;     // of its differentiable parameters, or below zero
  std::int32_t iterations;
  // Kept where the offset is below zero or of dynamic-count parameters, and where gates
  // wait.
  PerRow<std::vector<double>> params;
  PerRow<std::vector<std::int32_t>> wires;
  Projection projection;
};

// What a compiled bellhop_circuit_begin knows; it outlives the circuits that it begins.
struct Beginning {
  DevicePool& pool;
  std::size_t qubits;
  std::size_t shots;
  bool record;  // keeps what is applied
  bool tape;    // for the device's derivatives too
  bool own;     // which are the engine's own
  Tree tree;
  Redraw redraw;
  std::size_t rows;
  bool engine;                  // may run it
  engine::Precision precision;  // where the engine does
  bool waits;                   // see Session; of a batch it is true
  std::string circuit;          // what errors call it
};

// One circuit, from bellhop_circuit_begin to bellhop_circuit_end.
struct Session {
  std::mutex mutex;              // guards all of the below
  std::uint32_t generation = 0;  // drawn at each begin; never 0 in a live session
  std::atomic<std::int64_t> run_id = 0;
  // The thread that began the circuit, by a number of its own, and the position of the
  // circuit among all that the thread has begun.
  std::atomic<std::uint64_t> thread = 0;
  std::atomic<std::uint64_t> serial = 0;
  std::atomic<const void*> begun_by = nullptr;  // `beginning`, read without the lock
  const Beginning* beginning = nullptr;
  std::unique_ptr<Device> device;  // null: no circuit stands in this place
  bool record = false;             // on the plugin's tape
  bool touched = false;            // an operation was applied
  OutcomeEnumeration branches;
  SampledExecutions runs;      // where it is no tree
  bool device_failed = false;  // the plugin threw: never reuse the device
  Tape tape;
  bool keeps_steps = false;
  std::vector<Step> steps;
  // Gates are kept and not applied until something is measured. The device has no
  // qubits then: each thread that runs rows of a batch takes its own.
  bool waits = false;
  std::size_t rows = 0;  // of a batch; zero for one circuit alone
  // What the engine keeps of gates that wait, if it is no batch and the engine has
  // begun.
  std::shared_ptr<engine::Single> in_engine;
  std::size_t qubits = 0;
  DynamicCount dynamic_count;
  TangentVectors directions;

  // Runs a step of the circuit. What it throws becomes a CircuitError that begins
  // with describe(); unless it was one already, it came out of the plugin, and the
  // device is marked for destruction.
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
      throw CircuitError(describe() + ": the device refused it: " + error.what());
    } catch (...) {
      device_failed = true;
      throw CircuitError(describe() + ": the device refused it.");
    }
  }
};

// Exclusive use of a live session.
struct Lease {
  Session& session;
  std::unique_lock<std::mutex> lock;
  OpenMpLimit team;
  Session* operator->() const { return &session; }
};

// Any thread may call these.
Handle begin_session(const Beginning& beginning, std::optional<Seed> seed,
                     std::int64_t run_id);
// CircuitError where the handle is not that of an open circuit of the run.
Lease open_session(Handle handle, std::int64_t run_id);
// For errors; empty where open_session would throw.
std::string get_circuit_name(Handle handle, std::int64_t run_id);
// How many columns a table of the dynamic-count parameters of some steps has.
std::size_t dynamic_count_columns(std::span<const Step> steps);
// Whether a plugin records it. No tape holds samples or projections; what is recorded
// of these is run again.
bool is_for_tape(const Beginning& beginning);
// Ends the waiting of a circuit that is no batch: gives it a device of its qubits, in
// the zero state.
void stop_waiting(Session& session);
// For operations that there are not for a batch: CircuitError where it is one.
void require_one_circuit(const Session& session);
void end_session(Handle handle, std::int64_t run_id);

// Ends all sessions of an execution that failed part-way. A session in the middle of an
// operation is waited for.
void end_sessions(std::int64_t run_id) noexcept;

// Ends all sessions that a compiled begin has opened and its program did not end. Call
// it before the begin is freed: XLA frees an executable after its last run.
void end_sessions_begun_by(const Beginning& beginning) noexcept;

// Ends, in its destructor, the circuits that this thread began meanwhile and that are
// still open. XLA runs a program on the thread of its caller to the end before it
// returns, so these belong to runs that are over, and their programs left them open.
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

std::size_t live_sessions() noexcept;

}  // namespace bellhop
