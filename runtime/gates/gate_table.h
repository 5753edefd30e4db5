// gates/gate_table.h: a sequence of gates, parsed once and applied often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "circuit/session.h"
#include "gates/fused_gates.h"
#include "gates/gate.h"

namespace bellhop::engine {
class Plan;
}

namespace bellhop {

// A sequence of gates. Read-only after parsing, so executions share it.
class GateTable {
 public:
  // `names`, `code` and `constants` as in the contract; throws CircuitError.
  GateTable(std::string_view names, std::span<const std::int64_t> code,
            std::span<const double> constants);

  // Applies the gates, in order, in each iteration. If the session records, params[s]
  // is differentiable parameter offset + s, or not differentiable if offset < 0.
  // Parameters for more iterations are ignored.
  void apply(Session& session, std::span<const double> params, std::int32_t offset,
             std::span<const std::int32_t> dynamic_wires,
             std::int32_t iterations) const;

  // Stores the gates, with copies of their parameters unless the session borrows them,
  // as a step of a session that applies gates later (`Session::waits`).
  void keep(Session& session, const GivenNumbers& params, std::int32_t offset,
            const PerRow<std::span<const std::int32_t>>& dynamic_wires,
            std::int32_t iterations) const;

  // Returns how many parameters an iteration has.
  std::size_t parameters() const { return params_; }
  bool has_dynamic_wires() const { return dynamic_wires_ > 0; }
  // Whether it is one preparation of a state from parameters, and nothing else.
  bool is_preparation() const {
    return gates_.size() == 1 && gates_[0].kind == Gate::Kind::kState &&
           gates_[0].run_time_params;
  }

  // Successive iterations, with their parameters and dynamic wires.
  struct Iterations {
    std::size_t count;
    const double* params;                 // of the first iteration
    std::span<const std::int32_t> wires;  // of all iterations
  };
  // The gates as operations of the engine, `times` times, from iteration `first` on.
  struct Part {
    std::shared_ptr<const engine::Plan> plan;
    std::size_t first;
    std::size_t times;
  };
  // Divide `count` iterations into parts for a circuit with `qubits` qubits: `parts`
  // returns their number, and `part` the part with an index. A plan depends on dynamic
  // wires and bits, and then covers several iterations; without these, it covers one
  // iteration, and is applied repeatedly. Plans are cached. May be called from any
  // thread.
  std::size_t parts(std::size_t count) const;
  Part part(std::size_t number, const Iterations& iterations, std::size_t qubits) const;
  // Returns whether all rows of a batch have the same plans.
  bool is_one_plan(const Step& step, std::size_t rows) const;

 private:
  struct Plans;
  static std::shared_ptr<Plans> no_plans();

  bool is_computed() const { return dynamic_wires_ > 0 || !bits_.empty(); }
  std::span<const std::int32_t> wires_of(const Iterations& iterations) const {
    return iterations.wires.first(iterations.count * dynamic_wires_);
  }
  std::vector<std::int32_t> computed(const Iterations& iterations) const;
  std::shared_ptr<const engine::Plan> planned(const Iterations& iterations,
                                              std::size_t qubits) const;
  std::size_t iterations_at_once() const;
  void check_sizes(std::size_t params, std::size_t dynamic_wires, std::int32_t offset,
                   std::int32_t iterations) const;
  // Throws CircuitError if dynamic wires are invalid for a gate, or a bit is neither 0
  // nor 1.
  void check_computed(Session& session, const PerRow<std::span<const double>>& params,
                      const PerRow<std::span<const std::int32_t>>& dynamic_wires,
                      std::int32_t iterations) const;
  void apply_iteration(Session& session, std::span<const double> params,
                       std::int32_t offset,
                       std::span<const std::int32_t> dynamic_wires) const;

  std::vector<Gate> gates_;
  GateGroups groups_;
  std::vector<double> constants_;
  // How many parameters and dynamic wires an iteration has.
  std::size_t params_ = 0;
  std::size_t dynamic_wires_ = 0;
  // Indices of parameters that are bits of basis states.
  std::vector<std::size_t> bits_;
  std::shared_ptr<Plans> plans_;
};

}  // namespace bellhop
