// states/tiled_program.h: an iteration of a program in groups of operations.
#pragma once

#include <vector>

#include "compiled_gates/tiling.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// An iteration of a program, as groups, with its parameters, and their tangents unless
// null.
struct TiledProgram {
  const Program& whole;
  const std::vector<Group>& groups;
  const double* parameters;
  const double* direction;
  // Of a preparation, in place of `parameters`.
  const float* singles = nullptr;
  // Whether the parameters stay valid until the circuit has ended.
  bool has_kept_parameters = false;
};

}  // namespace bellhop::engine
