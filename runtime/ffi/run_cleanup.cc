// ffi/run_cleanup.cc: what a run that failed has left, wherever it is kept.
#include "ffi/run_cleanup.h"

#include <vector>

namespace bellhop {
namespace {

// Never destroyed: programs may fail while the process ends.
auto& cleanups = *new std::vector<RunCleanup>;

GoesOn goes_on = nullptr;

}  // namespace

void set_run_cleanups(std::initializer_list<RunCleanup> all) { cleanups = all; }

void set_goes_on(GoesOn function) { goes_on = function; }

void release_run(std::int64_t run_id) noexcept {
  if (goes_on != nullptr && goes_on(run_id)) return;
  for (const RunCleanup cleanup : cleanups) cleanup(run_id);
}

}  // namespace bellhop
