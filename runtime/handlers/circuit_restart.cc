// handlers/circuit_restart.cc: bellhop_circuit_restart.
#include "circuit/session.h"
#include "engine/single_circuit.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The handler of bellhop_circuit_restart.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if its device cannot be reset.
ffi::Error restart_handler(ffi::RunId run, HandleBuffer handle, HandleResult result,
                           ffi::ResultBufferR0<ffi::PRED> more,
                           ffi::ResultBufferR0<ffi::PRED> counts) {
  return with_session({run, handle, &result}, [&](Lease& lease) {
    Session& session = lease.session;
    // The rows of a batch draw their outcomes separately, but enumerate outcomes
    // together.
    if (!session.branches.is_tree()) require_one_circuit(session);
    const SampledExecutions::End end =
        session.branches.is_tree()
            ? SampledExecutions::End{true, session.branches.advance()}
            : session.runs.finish();
    *more->typed_data() = end.more;
    *counts->typed_data() = end.counts;
    session.attempt(
        [] { return std::string("reset of the circuit to the zero state"); },
        [&] {
          if (session.waits) return;
          session.device->pool.clear(*session.device);
        });
    session.touched = false;
    session.steps.clear();
    session.dynamic_count = {};
    session.directions = {};
    if (session.in_engine) {
      session.in_engine->restart();
      session.has_forgotten = false;
      session.in_engine->samples.clear();
    }
  });
}

const Target kCircuitRestart("bellhop_circuit_restart",
                             profile_handler<handler<restart_handler>>);

}  // namespace
}  // namespace bellhop
