// gates/gate_table.h: a straight run of gates, parsed once and applied often.
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

// Read-only after parsing, so any number of executions share one.
class GateTable {
 public:
  // `names`, `code` and `constants` as in the contract; throws CircuitError.
  GateTable(std::string_view names, std::span<const std::int64_t> code,
            std::span<const double> constants);

  // Applies the gates, in order, in each iteration. params[s] is differentiable
  // parameter offset + s where the session records, and none of them is where offset <
  // 0. What there is for more iterations is left alone.
  void apply(Session& session, std::span<const double> params, std::int32_t offset,
             std::span<const std::int32_t> dynamic_wires,
             std::int32_t iterations) const;

  // Keeps the gates of a session that waits.
  void keep(Session& session, const PerRow<std::span<const double>>& params,
            std::int32_t offset,
            const PerRow<std::span<const std::int32_t>>& dynamic_wires,
            std::int32_t iterations) const;

  // The gates as operations of the engine, for a circuit of `qubits`; made once. Any
  // thread may ask.
  const engine::Plan& plan(std::size_t qubits) const;

 private:
  struct Plans;
  static std::shared_ptr<Plans> no_plans();

  void check_sizes(std::size_t params, std::size_t dynamic_wires,
                   std::int32_t iterations) const;
  void apply_iteration(Session& session, std::span<const double> params,
                       std::int32_t offset,
                       std::span<const std::int32_t> dynamic_wires) const;

  std::vector<Gate> gates_;
  GateGroups groups_;
  std::vector<double> constants_;
  // How many of each the code refers to: those of an iteration.
  std::size_t params_ = 0;
  std::size_t dynamic_wires_ = 0;
  std::shared_ptr<Plans> plans_;
};

}  // namespace bellhop
