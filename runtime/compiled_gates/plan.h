// compiled_gates/plan.h: compile a sequence of gates to operations of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "compiled_gates/tiling.h"
#include "gates/gate_table.h"
#include "kernels/kernels.h"
#include "kernels/operation.h"

namespace bellhop::engine {

// A sequence of gates, with the numbers of parameters and of dynamic wires of an
// iteration.
struct GatesOfPlan {
  std::span<const Gate> gates;
  std::span<const double> constants;
  std::size_t parameters;
  std::size_t dynamic_wires;
};

// A sequence of gates as operations. Successive gates on the same pairs of amplitudes
// become one operation with several factors: RX(p0, 0), RY(p1, 0), CNOT(0, 1) become
// two operations, of which the first has two factors. Immutable, so threads share it.
class Plan {
 public:
  // Compiles `iterations` for a circuit with `qubits` qubits; dynamic wires and bits
  // have the values that they have there. Copies the constants.
  Plan(const GatesOfPlan& gates, const GateTable::Iterations& iterations,
       std::size_t qubits);

  std::size_t qubits() const { return qubits_; }
  // The name of the first gate that the engine cannot apply, and of the first that it
  // cannot differentiate; empty if there is none.
  const std::string& not_applied() const { return not_applied_; }
  const std::string& not_differentiated() const { return not_differentiated_; }

  // Returns a view of all operations, in order; valid as long as the plan.
  Program program() const {
    return {operations_.data(), operations_.size(), factors_.data(), factors_.size(),
            constants_.data(),  parameters_,        gathered_};
  }
  // Like program(), with CNOTs merged into gates before them: for the forward pass of a
  // state that fits into a tile, without rows in lanes and without a tangent.
  Program merged_program() const {
    return {merged_.data(),    merged_.size(), factors_.data(), factors_.size(),
            constants_.data(), parameters_,    gathered_};
  }
  // The operations of program() in groups for tiles. Empty if the state fits into a
  // tile and no operation goes through the whole state.
  const std::vector<Group>& groups() const { return groups_; }
  bool has_large_operations() const { return has_large_operations_; }
  // Whether the first operation gives all amplitudes of the state.
  bool prepares_all() const {
    return prepares_state() && operations_[0].targets == qubits_;
  }
  // Whether the first operation gives the amplitudes of some qubits.
  bool prepares_state() const {
    return !operations_.empty() && operations_[0].kind == Operation::Kind::kState;
  }

 private:
  friend class Planner;

  std::vector<Operation> operations_;
  std::vector<Operation> merged_;
  std::vector<Factor> factors_;
  std::vector<double> constants_;
  std::deque<std::vector<std::uint8_t>> bits_;
  std::vector<Group> groups_;
  std::size_t qubits_;
  std::size_t parameters_;
  std::size_t gathered_ = 0;
  bool has_large_operations_ = false;
  std::string not_applied_;
  std::string not_differentiated_;
};

// Returns how many plans were made in this process.
std::size_t plans_made() noexcept;

}  // namespace bellhop::engine
