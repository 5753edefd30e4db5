// ffi/run_cleanup.cc: release the resources that a failed execution has left open.
#include "ffi/run_cleanup.h"

#include <vector>

namespace bellhop {
namespace {

// Never destroyed, because a program may fail while the process exits.
auto& cleanups = *new std::vector<RunCleanup>;

RunContinues run_continues = nullptr;

}  // namespace

void set_run_cleanups(std::initializer_list<RunCleanup> all) { cleanups = all; }

void set_run_continues(RunContinues function) { run_continues = function; }

void release_run(std::int64_t run_id) noexcept {
  if (run_continues != nullptr && run_continues(run_id)) return;
  for (const RunCleanup cleanup : cleanups) cleanup(run_id);
}

}  // namespace bellhop
