// handlers/circuit_handlers.h: the handlers of the circuit family, a file each.
#pragma once

#include "ffi/registry.h"

namespace bellhop {

Target circuit_run_target();
Target circuit_begin_target();
Target circuit_gates_target();
Target seed_target();
Target circuit_mid_measure_target();
Target circuit_restart_target();
Target circuit_measure_target();
Target circuit_jacobian_target();
Target circuit_replay_target();
Target circuit_replay_jacobian_target();
Target circuit_shift_target();
Target circuit_directional_derivative_target();
Target circuit_vjp_target();
Target circuit_cotangents_target();
Target circuit_steps_target();
Target circuit_direction_target();
Target circuit_remember_target();
Target circuit_recall_target();
Target circuit_after_target();
Target circuit_end_target();

}  // namespace bellhop
