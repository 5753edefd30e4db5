// engine/state_evolution.cc: apply the steps of a circuit to a state, forward and
// backward.
#include "engine/state_evolution.h"

#include "gates/gate_table.h"
#include "interpreter/signals.h"
#include "states/projections.h"

namespace bellhop::engine {
namespace {

std::size_t parts_of(const Step& step) {
  return step.gates->parts(static_cast<std::size_t>(step.iterations));
}

// Returns the column of the derivative with respect to a step's first parameter;
// negative if there is none.
std::int64_t first_column(const Step& step, std::size_t columns) {
  if (is_dynamic_count(step.offset))
    return static_cast<std::int64_t>(column_of(step.offset));
  if (step.offset != kLastParameters) return step.offset;
  // No underflow: `takes_of` in engine_dispatch.cc has checked the number of
  // parameters.
  const std::size_t taken =
      static_cast<std::size_t>(step.iterations) * step.gates->parameters();
  return static_cast<std::int64_t>(columns - taken);
}

}  // namespace

Amplitudes Walk::ket() {
  const Amplitudes state = states_.get(0);
  if (is_unset_) {
    states_.set_zero_state(state);
  } else {
    write_given(written_, states_, state);
    states_.set_zero_outside(state, written_.bits());
  }
  is_unset_ = false;
  written_.set_all();
  return state;
}

Ket Walk::partly_written_ket() {
  // The kernels sum whole registers, so all lanes of a small state must be written.
  if (states_.layout().qubits <= kTileBits) return ket_with_tangent();
  const Amplitudes state = states_.get(0);
  if (is_unset_) {
    with_numbers(
        states_.layout(),
        [](auto numbers) {
          numbers.real[0] = 1;
          numbers.imag[0] = 0;
        },
        state);
    written_.set_first();
  }
  is_unset_ = false;
  if (direction_.numbers.empty()) return {state};
  return {state, states_.get(1)};
}

Ket Walk::ket_with_tangent() {
  if (direction_.numbers.empty()) return {ket()};
  return {ket(), states_.get(1)};
}

// Returns the iterations of a part of a step, in the form that the kernels take.
Segment Walk::segment_of(const Step& step, std::size_t number, const Inputs& inputs,
                         std::int64_t column) {
  // Different steps may have the same gates and the same address of parameters.
  if (step_ != &step) states_.forget_matrices();
  step_ = &step;
  const GateTable& gates = *step.gates;
  const auto count = static_cast<std::size_t>(step.iterations);
  GateTable::Part part =
      gates.part(number, {count, inputs.params, inputs.wires}, states_.layout().qubits);
  plan_.swap(part.plan);
  program_ = plan_->program();
  const std::size_t before = part.first * gates.parameters();
  if (column >= 0) column += static_cast<std::int64_t>(before);
  Segment segment{&program_, part.times, inputs.params + before, inputs.stride, column};
  const auto& numbers = direction_.numbers;
  const std::int64_t first = numbers.empty() ? -1 : first_column(step, numbers.size());
  if (first >= 0) {
    segment.direction = numbers.data() + static_cast<std::size_t>(first) + before;
    segment.direction_stride = direction_.stride;
  }
  return segment;
}

TiledProgram Walk::iteration(const Segment& segment, std::size_t number) const {
  const std::size_t before = number * program_.parameters;
  return {program_,
          plan_->groups(),
          segment.parameters + before,
          segment.direction == nullptr ? nullptr : segment.direction + before,
          singles_,
          has_kept_parameters_};
}

bool Walk::is_tiled() const {
  return !states_.layout().rows_in_lanes &&
         (states_.layout().qubits > kTileBits || plan_->has_large_operations());
}

void Walk::announce_work(const Segment& segment, std::size_t passes) const {
  const std::size_t amplitudes = size_of(states_);
  const std::size_t operations = program_.size * segment.iterations * passes;
  states_.announce_work(kNanosecondsOfAmplitude * static_cast<double>(operations) *
                        static_cast<double>(amplitudes));
}

void Walk::begin(const Direction& direction) {
  direction_ = direction;
  removed_.clear();
  step_ = nullptr;
  plan_.reset();
  is_unset_ = true;
  written_.forget_groups();
  if (!direction.numbers.empty()) states_.set_zero(states_.get(1));
}

void Walk::forward(const Step& step, const Inputs& inputs) {
  check_signals();
  if (step.gates == nullptr) {
    return project(states_, ket(), step.projection, can_go_back_ ? &removed_ : nullptr);
  }
  Inputs here = inputs;
  singles_ = inputs.singles.data();
  has_kept_parameters_ = inputs.are_kept;
  if (!inputs.singles.empty() && states_.layout().qubits <= kTileBits) {
    // The kernels of small states take doubles.
    widened_.assign(inputs.singles.begin(), inputs.singles.end());
    here.params = widened_.data();
  }
  for (std::size_t number = 0; number < parts_of(step); ++number) {
    if (number > 0) check_signals();
    Segment segment = segment_of(step, number, here, -1);
    if (is_tiled()) {
      // A preparation of all amplitudes writes each of them.
      if (plan_->prepares_all() && is_unset_) {
        is_unset_ = false;
        written_.set_all();
      }
      announce_work(segment, 1);
      for (std::size_t t = 0; t < segment.iterations; ++t) {
        forward_by_tiles(iteration(segment, t), states_, partly_written_ket(),
                         written_);
      }
      continue;
    }
    const Ket all = ket_with_tangent();
    states_.fit(program_, all.moves());
    const Program merged = plan_->merged_program();
    // The backward pass reuses the matrices of the forward pass only if both have the
    // same program.
    if (!can_go_back_ && !all.moves() && !states_.layout().rows_in_lanes) {
      segment.program = &merged;
    }
    states_.sweeps().forward(states_.layout(), &segment, 1, all, states_.scratch());
  }
}

void Walk::backward(const Step& step, const Inputs& inputs,
                    const Gradients& gradients) {
  check_signals();
  if (step.gates == nullptr) {
    for (const Amplitudes& bra : gradients.bras) {
      apply_adjoint(states_, bra, step.projection);
    }
    return restore(states_, ket(), step.projection, removed_);
  }
  const bool is_dynamic = is_dynamic_count(step.offset);
  double* const jacobian = is_dynamic ? gradients.by_dynamic_count : gradients.jacobian;
  const std::size_t columns =
      is_dynamic ? gradients.dynamic_count_columns : gradients.columns;
  const std::int64_t column = jacobian == nullptr ? -1 : first_column(step, columns);
  for (std::size_t number = parts_of(step); number-- > 0;) {
    const Segment segment = segment_of(step, number, inputs, column);
    if (is_tiled()) {
      // Each state goes back, and a derivative takes as long as that.
      announce_work(segment, 2 * (1 + gradients.bras.size()));
      for (std::size_t t = segment.iterations; t-- > 0;) {
        double* const at =
            column < 0 ? nullptr : jacobian + segment.column + t * program_.parameters;
        backward_by_tiles(iteration(segment, t), states_, ket_with_tangent(),
                          gradients.bras, at, columns, written_);
      }
    } else {
      states_.sweeps().backward(states_.layout(), &segment, 1, ket_with_tangent(),
                                gradients.bras.data(), gradients.bras.size(), jacobian,
                                columns, gradients.row_size, gradients.rows,
                                states_.scratch());
    }
    if (number > 0) check_signals();
  }
}

}  // namespace bellhop::engine
