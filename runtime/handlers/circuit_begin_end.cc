// handlers/circuit_begin_end.cc: bellhop_circuit_begin and bellhop_circuit_end.
#include <algorithm>
#include <optional>
#include <utility>

#include "callbacks/lookup.h"
#include "circuit/session.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_ops.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The state of a compiled bellhop_circuit_begin. Shared by all executions, never
// changed.
struct BeginState {
  static inline ffi::TypeId id = {};
  Beginning beginning;
  bool seeded;

  BeginState(Beginning begun, bool takes_seed)
      : beginning(std::move(begun)), seeded(takes_seed) {}
  // XLA frees the executable, so its programs have left the open circuits open.
  ~BeginState() { end_sessions_begun_by(beginning); }
  BeginState(const BeginState&) = delete;
  BeginState& operator=(const BeginState&) = delete;
};

// Decodes the contract's attribute `tree`; throws CircuitError.
Outcomes parse_tree(std::int64_t value) {
  if (value < 0 || value > kMostOutcomes) {
    throw CircuitError("attribute tree of a circuit: expected 0 to " +
                       std::to_string(kMostOutcomes) + ", got " +
                       std::to_string(value) + "." + kDamaged);
  }
  return static_cast<Outcomes>(value);
}

// Creates the state of a compiled bellhop_circuit_begin from its attributes.
ffi::ErrorOr<std::unique_ptr<BeginState>> prepare_begin(
    Text<"library"> library, Text<"factory"> factory, Text<"kwargs"> kwargs,
    Integer<"qubits"> qubits, Integer<"shots"> shots, Integer<"record"> record,
    Integer<"tree"> tree, Integer<"seeded"> seeded, Integer<"rows"> rows,
    Integer<"engine"> engine, Integer<"precision"> precision,
    Integer<"program"> /*program*/, Text<"name"> name, Text<"site"> site) {
  const std::string circuit = circuit_name(name, site);
  const auto build = [&] {
    const Outcomes outcomes = parse_tree(tree);
    if (rows > 0 && is_repeated(outcomes)) {
      throw CircuitError(
          "internal error: repeating executions whose postselections fail is not "
          "supported for a batch of circuits. Please report this as a bug in Bellhop.");
    }
    if (rows > 0 && outcomes == Outcomes::kSharedRuns) {
      throw CircuitError(
          "internal error: shots that share an execution are not supported for a batch "
          "of circuits. Please report this as a bug in Bellhop.");
    }
    return std::make_unique<BeginState>(
        parse_beginning(
            {library, factory, kwargs, qubits, shots, record, rows, engine, precision},
            circuit, outcomes),
        seeded != 0);
  };
  return instantiate<BeginState>(build, circuit);
}

// Reads the seed from the first anchor.
Seed read_seed(const ffi::RemainingArgs& anchors) {
  Seed seed;
  const auto words = anchors.get<ffi::BufferR1<ffi::U32>>(0);
  if (!words || words->element_count() != seed.size()) {
    throw CircuitError(std::string("seed of a circuit with random outcomes: expected "
                                   "an operand of type ui32[4], got ") +
                       (words ? "ui32[" + std::to_string(words->element_count()) + "]"
                              : "another type or rank") +
                       "." + kDamaged);
  }
  std::copy_n(words->typed_data(), seed.size(), seed.begin());
  return seed;
}

// The handler of bellhop_circuit_begin.
// Threading: any XLA thread.
// Ownership: the execution owns the session from here on: until bellhop_circuit_end,
// until the execution fails, or at the latest until the call or the executable of a
// program that never ends the circuit is gone.
ffi::Error begin_handler(BeginState* state, ffi::RunId run, ffi::RemainingArgs anchors,
                         HandleResult result) {
  return run_guarded(state, run, state->beginning, [&] {
    std::optional<Seed> seed;
    if (state->seeded) seed = read_seed(anchors);
    write_handle(result, begin_session(state->beginning, seed, run.run_id));
  });
}

// The handler of bellhop_circuit_end.
// Threading: any XLA thread.
// Ownership: closes the session; returns the device to its pool, or destroys it if it
// failed.
ffi::Error end_handler(ffi::RunId run, HandleBuffer handle) {
  return run_guarded(run, handle,
                     [&] { end_session(read_handle(handle), run.run_id); });
}

const Target kCircuitBegin(
    "bellhop_circuit_begin",
    profile_handler<handler<begin_handler, find_table_of_program>, CircuitStep::kBegin>,
    register_and_instantiate<prepare_begin>);
const Target kCircuitEnd("bellhop_circuit_end",
                         profile_handler<handler<end_handler>, CircuitStep::kEnd>);

}  // namespace
}  // namespace bellhop
