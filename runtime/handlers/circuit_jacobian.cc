// handlers/circuit_jacobian.cc: bellhop_circuit_jacobian.
#include <algorithm>
#include <span>

#include "derivatives/jacobian.h"
#include "handlers/circuit_ffi.h"
#include "measurements/waiting.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: the session is borrowed, and ends here if the derivative fails.
ffi::Error jacobian(ffi::RunId run, HandleBuffer handle, HandleResult result,
                    ffi::ResultBufferR2<ffi::F64> matrix) {
  return with_one_circuit({run, handle, &result}, [&](Lease& lease) {
    const std::span values(matrix->typed_data(), matrix->element_count());
    const auto expvals = static_cast<std::size_t>(matrix->dimensions()[0]);
    const auto columns = static_cast<std::size_t>(matrix->dimensions()[1]);
    const auto& known = lease->jacobian;
    if (known && known->size() == values.size()) {
      // The derivative by dynamic-count parameters is kept already.
      std::ranges::copy(*known, values.begin());
    } else {
      apply_waiting(lease.session);
      adjoint_jacobian(lease.session, values, expvals, columns);
    }
  });
}

const Target kCircuitJacobian("bellhop_circuit_jacobian", profiled<handler<jacobian>>);

}  // namespace
}  // namespace bellhop
