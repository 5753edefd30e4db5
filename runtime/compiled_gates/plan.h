// compiled_gates/plan.h: a run of gates as operations of the engine.
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

// Gates in order, and of an iteration of them how many parameters there are, and how
// many wires that the program computes.
struct GatesOfPlan {
  std::span<const Gate> gates;
  std::span<const double> constants;
  std::size_t parameters;
  std::size_t dynamic_wires;
};

// A run of gates as operations. Gates that follow one another on the same pairs of
// amplitudes become one operation with several factors: RX(p0, 0), RY(p1, 0), CNOT(0,
// 1) become two operations, of which the first has two factors. A plan does not change
// after it is made, so threads share it.
class Plan {
 public:
  // For a circuit of so many qubits: `iterations`, with computed wires and bits as they
  // are there. Copies the constants.
  Plan(const GatesOfPlan& gates, const GateTable::Iterations& iterations,
       std::size_t qubits);

  std::size_t qubits() const { return qubits_; }
  // The name of the first gate that the engine cannot apply, or cannot differentiate;
  // empty if there is none.
  const std::string& not_applied() const { return not_applied_; }
  const std::string& not_differentiated() const { return not_differentiated_; }

  Program program() const {
    return {operations_.data(), operations_.size(), factors_.data(), factors_.size(),
            constants_.data(),  parameters_,        gathered_};
  }
  // The same for large states, and where operations go through the whole state.
  const std::vector<Group>& groups() const { return groups_; }
  bool has_large_operations() const { return has_large_operations_; }
  // Whether the first operation gives all amplitudes of the state.
  bool prepares_all() const {
    return prepares_state() && operations_[0].targets == qubits_;
  }
  bool prepares_state() const {
    return !operations_.empty() && operations_[0].kind == Operation::Kind::kState;
  }

 private:
  friend class Planner;

  std::vector<Operation> operations_;
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

// How many plans were made in this process.
std::size_t plans_made() noexcept;

}  // namespace bellhop::engine
