// handlers/circuit_score.cc: bellhop_circuit_score.
#include <span>

#include "engine/engine_dispatch.h"
#include "engine/score.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The handler of bellhop_circuit_score.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if the derivative fails.
ffi::Error score_handler(ffi::RunId run, HandleBuffer handle, HandleResult result,
                         ffi::ResultBufferR0<ffi::S32> saved,
                         ffi::ResultBufferR1<ffi::F64> by) {
  return with_one_circuit({run, handle, &result}, [&](Lease& lease) {
    const std::span found(by->typed_data(), by->element_count());
    if (!engine::may_score(lease.session, found.size())) {
      throw CircuitError(
          "the derivative with respect to gates before drawn outcomes is supported "
          "only by Bellhop's engine, which cannot differentiate a gate of this "
          "circuit. Decompose the gate, or execute the circuit without shots.");
    }
    *saved->typed_data() = engine::score(lease.session, found);
  });
}

const Target kCircuitScore("bellhop_circuit_score",
                           profile_handler<handler<score_handler>>);

}  // namespace
}  // namespace bellhop
