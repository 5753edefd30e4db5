// plans/plan.h: a run of gates as operations of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "gates/gate_table.h"
#include "sweeps/operation.h"

namespace bellhop::engine {

// Gates as operations, those that follow one another on the same pairs of amplitudes in
// one. Read-only after it is made, so any number of threads share one.
class Plan {
 public:
  // For a circuit of `qubits`; `constants` are copied.
  Plan(std::span<const Gate> gates, std::span<const double> constants,
       std::size_t qubits, std::size_t parameters);

  std::size_t qubits() const { return qubits_; }
  // The first gate that the engine does not apply, or has no derivative of, or empty.
  const std::string& not_applied() const { return not_applied_; }
  const std::string& not_differentiated() const { return not_differentiated_; }

  Program program() const {
    return {operations_.data(), operations_.size(), factors_.data(), factors_.size(),
            constants_.data(),  parameters_,        gathered_};
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
  std::size_t qubits_;
  std::size_t parameters_;
  std::size_t gathered_ = 0;
  std::string not_applied_;
  std::string not_differentiated_;
};

}  // namespace bellhop::engine
