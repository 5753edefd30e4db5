// handlers/circuit_targets.cc: the table of the circuit family.
#include "ffi/registry.h"
#include "handlers/circuit_handlers.h"

namespace bellhop {

std::vector<Target> circuit_targets() {
  return {seed_target(),
          circuit_run_target(),
          circuit_begin_target(),
          circuit_gates_target(),
          circuit_mid_measure_target(),
          circuit_restart_target(),
          circuit_measure_target(),
          circuit_jacobian_target(),
          circuit_replay_target(),
          circuit_replay_jacobian_target(),
          circuit_shift_target(),
          circuit_directional_derivative_target(),
          circuit_vjp_target(),
          circuit_cotangents_target(),
          circuit_steps_target(),
          circuit_direction_target(),
          circuit_remember_target(),
          circuit_recall_target(),
          circuit_after_target(),
          circuit_end_target()};
}

}  // namespace bellhop
