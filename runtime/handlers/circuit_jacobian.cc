// handlers/circuit_jacobian.cc: bellhop_circuit_jacobian.
#include <span>

#include "derivatives/jacobian.h"
#include "handlers/circuit_ffi.h"
#include "handlers/circuit_handlers.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// Threading: any XLA thread; operations on one session wait for each other.
// Ownership: the session is borrowed, and ends here if the derivative fails.
ffi::Error jacobian(ffi::RunId run, HandleBuffer handle, HandleResult result,
                    ffi::ResultBufferR2<ffi::F64> matrix) {
  return with_one_circuit({run, handle, &result}, [&](Lease& lease) {
    const auto shape = matrix->dimensions();
    adjoint_jacobian(
        lease.session, std::span(matrix->typed_data(), matrix->element_count()),
        static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]));
  });
}

}  // namespace

Target circuit_jacobian_target() {
  return {"bellhop_circuit_jacobian", nullptr, profiled<handler<jacobian>>};
}

}  // namespace bellhop
