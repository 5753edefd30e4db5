// engine/walk.cc: through the steps of a circuit, forward and back.
#include "engine/walk.h"

#include <algorithm>

#include "gates/gate_table.h"
#include "interpreter/signals.h"
#include "plans/plan.h"
#include "states/projections.h"
#include "states/tiles.h"

namespace bellhop::engine {
namespace {

// Between these it is seen whether a signal has come.
constexpr std::size_t kIterationsAtOnce = 1024;

std::size_t parts_of(const Step& step) {
  const auto iterations = static_cast<std::size_t>(step.iterations);
  return (iterations + kIterationsAtOnce - 1) / kIterationsAtOnce;
}

Segment segment_of(const Step& step, const Program& program, std::size_t part,
                   const Walk::Parameters& parameters, std::size_t columns) {
  const auto iterations = static_cast<std::size_t>(step.iterations);
  const std::size_t first = part * kIterationsAtOnce;
  const std::size_t before = first * program.parameters;
  std::int64_t offset = step.offset;
  if (is_dynamic_count(offset)) offset -= kFirstDynamicCount;
  if (offset == kLastParameters) {
    offset = static_cast<std::int64_t>(columns - program.parameters);
  }
  const std::int64_t column =
      offset < 0 ? -1 : offset + static_cast<std::int64_t>(before);
  return {&program, std::min(iterations - first, kIterationsAtOnce),
          parameters.first + before, parameters.stride, column};
}

TiledProgram iteration(const Plan& plan, const Program& program,
                       const Walk::Parameters& parameters, std::int32_t number) {
  return {program, plan.groups(),
          parameters.first + static_cast<std::size_t>(number) * program.parameters};
}

}  // namespace

bool Walk::is_tiled() const {
  return !states_.layout().rows_in_lanes && states_.layout().qubits > kTileBits;
}

void Walk::begin() {
  removed_.clear();
  states_.forget_matrices();
  states_.set_zero_state(ket());
}

void Walk::forward(const Step& step, const Parameters& parameters) {
  check_signals();
  if (step.gates == nullptr) {
    return project(states_, ket(), step.projection, can_go_back_ ? &removed_ : nullptr);
  }
  const Plan& plan = step.gates->plan(states_.layout().qubits);
  const Program program = plan.program();
  if (is_tiled()) {
    for (std::int32_t t = 0; t < step.iterations; ++t) {
      forward_by_tiles(iteration(plan, program, parameters, t), states_, ket());
    }
    return;
  }
  states_.fit(program);
  for (std::size_t part = 0; part < parts_of(step); ++part) {
    if (part > 0) check_signals();
    const Segment segment = segment_of(step, program, part, parameters, 0);
    sweeps().forward(states_.layout(), &segment, 1, ket(), states_.scratch());
  }
}

void Walk::backward(const Step& step, const Parameters& parameters,
                    const Gradients& gradients) {
  check_signals();
  if (step.gates == nullptr) {
    for (const Amplitudes& bra : gradients.bras) {
      apply_adjoint(states_, bra, step.projection);
    }
    return restore(states_, ket(), step.projection, removed_);
  }
  const Plan& plan = step.gates->plan(states_.layout().qubits);
  const Program program = plan.program();
  const bool is_dynamic = is_dynamic_count(step.offset);
  double* const jacobian = is_dynamic ? gradients.by_dynamic_count : gradients.jacobian;
  const std::size_t columns =
      is_dynamic ? gradients.dynamic_count_columns : gradients.columns;
  if (is_tiled()) {
    const Segment whole = segment_of(step, program, 0, parameters, columns);
    for (std::int32_t t = step.iterations; t-- > 0;) {
      double* const at = whole.column < 0 || jacobian == nullptr
                             ? nullptr
                             : jacobian + whole.column +
                                   static_cast<std::size_t>(t) * program.parameters;
      backward_by_tiles(iteration(plan, program, parameters, t), states_, ket(),
                        gradients.bras, at, columns);
    }
    return;
  }
  for (std::size_t part = parts_of(step); part-- > 0;) {
    Segment segment = segment_of(step, program, part, parameters, columns);
    if (jacobian == nullptr) segment.column = -1;
    sweeps().backward(states_.layout(), &segment, 1, ket(), gradients.bras.data(),
                      gradients.bras.size(), jacobian, columns, gradients.row_size,
                      gradients.rows, states_.scratch());
    if (part > 0) check_signals();
  }
}

}  // namespace bellhop::engine
