// handlers/circuit_begin_end.cc: bellhop_circuit_begin and bellhop_circuit_end.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "callbacks/lookup.h"
#include "circuit/session.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_ops.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// What a compiled begin needs to know. Shared by all executions, never changed.
struct BeginState {
  static inline ffi::TypeId id = {};
  Beginning beginning;
  bool seeded;

  BeginState(Beginning begun, bool takes_seed)
      : beginning(std::move(begun)), seeded(takes_seed) {}
  // The executable is freed: its program left open what is open now.
  ~BeginState() { end_sessions_of(beginning); }
  BeginState(const BeginState&) = delete;
  BeginState& operator=(const BeginState&) = delete;
};

// What the contract's `tree` says: which outcomes there are, or what becomes of runs
// whose outcomes are drawn.
struct Outcomes {
  Tree tree;
  Redraw redraw;
};

Outcomes outcomes_of(std::int64_t value) {
  constexpr Outcomes kAll[] = {
      {Tree::kNone, Redraw::kNever}, {Tree::kThatHappen, Redraw::kNever},
      {Tree::kAll, Redraw::kNever},  {Tree::kNone, Redraw::kRemembering},
      {Tree::kNone, Redraw::kAnew},  {Tree::kDrawn, Redraw::kNever}};
  if (value < 0 || value >= std::ssize(kAll)) {
    throw CircuitError("A circuit's tree: expected 0 to 5, got " +
                       std::to_string(value) + ".");
  }
  return kAll[value];
}

ffi::ErrorOr<std::unique_ptr<BeginState>> prepare_begin(
    Text<"library"> library, Text<"factory"> factory, Text<"kwargs"> kwargs,
    Integer<"qubits"> qubits, Integer<"shots"> shots, Integer<"record"> record,
    Integer<"tree"> tree, Integer<"seeded"> seeded, Integer<"rows"> rows,
    Integer<"engine"> engine, Integer<"precision"> precision,
    Integer<"program"> /*program*/, Text<"name"> name, Text<"site"> site) {
  const std::string circuit = circuit_name(name, site);
  const auto build = [&] {
    const Outcomes outcomes = outcomes_of(tree);
    if (rows > 0 && outcomes.redraw != Redraw::kNever) {
      throw CircuitError("The rows of a batch are not drawn again.");
    }
    if (rows > 0 && outcomes.tree == Tree::kDrawn) {
      throw CircuitError("The rows of a batch do not share their runs among shots.");
    }
    return std::make_unique<BeginState>(
        beginning_of(
            {library, factory, kwargs, qubits, shots, record, rows, engine, precision},
            circuit, outcomes.tree, outcomes.redraw),
        seeded != 0);
  };
  return instantiate<BeginState>(build, circuit);
}

Seed read_seed(const ffi::RemainingArgs& anchors) {
  Seed seed;
  const auto words = anchors.get<ffi::BufferR1<ffi::U32>>(0);
  if (!words || words->element_count() != seed.size()) {
    throw CircuitError("A circuit with random outcomes begins with a seed of 4 words.");
  }
  std::copy_n(words->typed_data(), seed.size(), seed.begin());
  return seed;
}

// Threading: any XLA thread.
// Ownership: the session is the run's from here on: until end, until its execution
// fails, or at the latest until the call or the executable of a program that never ends
// it is over.
ffi::Error begin(BeginState* state, ffi::RunId run, ffi::RemainingArgs anchors,
                 HandleResult result) {
  return guarded(state, run, state->beginning, [&] {
    std::optional<Seed> seed;
    if (state->seeded) seed = read_seed(anchors);
    write_handle(result, begin_session(state->beginning, seed, run.run_id));
  });
}

// Threading: any XLA thread.
// Ownership: the device goes back to its pool, or is destroyed if it failed.
ffi::Error end(ffi::RunId run, HandleBuffer handle) {
  return guarded(run, handle, [&] { end_session(read_handle(handle), run.run_id); });
}

const Target kCircuitBegin(
    "bellhop_circuit_begin",
    profiled<handler<begin, find_table_of_program>, CircuitStep::kBegin>,
    preparing<prepare_begin>);
const Target kCircuitEnd("bellhop_circuit_end",
                         profiled<handler<end>, CircuitStep::kEnd>);

}  // namespace
}  // namespace bellhop
