// handlers/circuit_dynamic_count.cc: bellhop_circuit_jvp, bellhop_circuit_vjp,
// bellhop_circuit_cotangents, bellhop_circuit_steps, bellhop_circuit_direction,
// bellhop_circuit_remember, bellhop_circuit_recall and bellhop_circuit_after.
#include <algorithm>
#include <span>
#include <string>

#include "derivatives/derivative.h"
#include "devices/checked_size.h"
#include "handlers/circuit_ffi.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The handler of bellhop_circuit_jvp.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if the derivative is not stored there.
ffi::Error jvp_handler(ffi::RunId run, HandleBuffer handle,
                       ffi::BufferR1<ffi::F64> directions,
                       ffi::BufferR0<ffi::S32> derivative,
                       ffi::ResultBufferR2<ffi::F64> result) {
  return with_one_circuit({run, handle}, [&](Lease& lease) {
    multiply_saved_derivative(lease.session, *derivative.typed_data(),
                              {span_of(directions), directions.element_count(), 1},
                              span_of(*result));
  });
}

// The handler of bellhop_circuit_vjp.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if the derivative is not stored there.
ffi::Error vjp_handler(Integer<"bits"> bits, ffi::RunId run, HandleBuffer handle,
                       ffi::BufferR2<ffi::F64> cotangents,
                       ffi::BufferR0<ffi::S32> derivative,
                       ffi::ResultBufferR1<ffi::F64> id) {
  return with_one_circuit({run, handle}, [&](Lease& lease) {
    const auto shape = cotangents.dimensions();
    expect_count(static_cast<std::size_t>(shape[0]), id->element_count(),
                 "perturbations of cotangents");
    std::ranges::fill(span_of(*id), lease->dynamic_count.vjp(
                                        *derivative.typed_data(), span_of(cotangents),
                                        static_cast<std::size_t>(shape[0]),
                                        static_cast<std::size_t>(shape[1]), bits));
  });
}

// The handler of bellhop_circuit_cotangents.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if the id is not a sum of ids of VJPs.
ffi::Error cotangents_handler(ffi::RunId run, HandleBuffer handle,
                              ffi::BufferR1<ffi::F64> id,
                              ffi::BufferR0<ffi::S32> number,
                              ffi::ResultBufferR2<ffi::F64> result) {
  return with_one_circuit({run, handle}, [&](Lease& lease) {
    const std::size_t rows = id.element_count();
    if (rows == 0) return;
    lease->dynamic_count.read(*id.typed_data(), *number.typed_data(), rows,
                              span_of(*result));
  });
}

// The handler of bellhop_circuit_steps.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session.
ffi::Error steps_handler(ffi::RunId run, HandleBuffer handle, HandleResult result,
                         ffi::ResultBufferR0<ffi::S32> steps) {
  return with_one_circuit({run, handle, &result}, [&](Lease& lease) {
    *steps->typed_data() = static_cast<std::int32_t>(lease->steps.size());
  });
}

// The handler of bellhop_circuit_direction.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if an id is unknown.
ffi::Error direction_handler(Integer<"bits"> bits, ffi::RunId run, HandleBuffer handle,
                             ffi::BufferR1<ffi::F64> ids, ffi::BufferR2<ffi::F64> parts,
                             ffi::BufferR0<ffi::S32> number,
                             ffi::ResultBufferR1<ffi::F64> results) {
  return with_one_circuit({run, handle}, [&](Lease& lease) {
    const auto columns = static_cast<std::size_t>(parts.dimensions()[1]);
    if (static_cast<std::size_t>(parts.dimensions()[0]) != ids.element_count()) {
      throw CircuitError("tangents of a direction: expected " +
                         std::to_string(ids.element_count()) + " rows, got " +
                         std::to_string(parts.dimensions()[0]) + "." + kDamaged);
    }
    expect_count(ids.element_count(), results->element_count(),
                 "perturbations of tangents");
    for (std::size_t row = 0; row < ids.element_count(); ++row) {
      results->typed_data()[row] =
          lease->directions.add(ids.typed_data()[row], *number.typed_data(),
                                span_of(parts).subspan(row * columns, columns), bits);
    }
  });
}

// The handler of bellhop_circuit_remember.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session.
ffi::Error remember_handler(ffi::RunId run, HandleBuffer handle,
                            ffi::BufferR0<ffi::PRED> outcome,
                            ffi::BufferR0<ffi::S32> number, HandleResult result) {
  return with_session({run, handle, &result}, [&](Lease& lease) {
    lease->dynamic_count.remember(*number.typed_data(), *outcome.typed_data());
  });
}

// The handler of bellhop_circuit_recall.
// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: borrows the session; closes it if the outcome is not stored.
ffi::Error recall_handler(ffi::RunId run, HandleBuffer handle,
                          ffi::BufferR0<ffi::S32> number,
                          ffi::ResultBufferR0<ffi::PRED> outcome) {
  return with_session({run, handle}, [&](Lease& lease) {
    *outcome->typed_data() = lease->dynamic_count.recall(*number.typed_data());
  });
}

// The handler of bellhop_circuit_after, which orders the circuit's end after the
// anchors.
// Threading: any XLA thread.
// Ownership: does not access the session.
ffi::Error after_handler(ffi::RunId run, HandleBuffer handle,
                         ffi::RemainingArgs /*anchors*/, HandleResult result) {
  return run_guarded(run, handle, [&] { write_handle(result, read_handle(handle)); });
}

const Target kCircuitJvp("bellhop_circuit_jvp", profile_handler<handler<jvp_handler>>);
const Target kCircuitVjp("bellhop_circuit_vjp", profile_handler<handler<vjp_handler>>);
const Target kCircuitCotangents("bellhop_circuit_cotangents",
                                profile_handler<handler<cotangents_handler>>);
const Target kCircuitSteps("bellhop_circuit_steps",
                           profile_handler<handler<steps_handler>>);
const Target kCircuitDirection("bellhop_circuit_direction",
                               profile_handler<handler<direction_handler>>);
const Target kCircuitRemember("bellhop_circuit_remember",
                              profile_handler<handler<remember_handler>>);
const Target kCircuitRecall("bellhop_circuit_recall",
                            profile_handler<handler<recall_handler>>);
const Target kCircuitAfter("bellhop_circuit_after",
                           profile_handler<handler<after_handler>>);

}  // namespace
}  // namespace bellhop
