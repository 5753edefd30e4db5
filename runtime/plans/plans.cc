// plans/plans.cc: the plan of a gate table, made where it is first asked for.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "gates/gate_table.h"
#include "plans/plan.h"

namespace bellhop {

struct GateTable::Plans {
  // A compiled call is one of one circuit, and asks for one plan all its life.
  std::atomic<const engine::Plan*> usual = nullptr;
  std::mutex mutex;
  std::map<std::size_t, std::unique_ptr<const engine::Plan>> by_qubits;
};

std::shared_ptr<GateTable::Plans> GateTable::no_plans() {
  return std::make_shared<Plans>();
}

const engine::Plan& GateTable::plan(std::size_t qubits) const {
  const engine::Plan* const usual = plans_->usual.load(std::memory_order_acquire);
  if (usual != nullptr && usual->qubits() == qubits) return *usual;
  std::lock_guard lock(plans_->mutex);
  std::unique_ptr<const engine::Plan>& plan = plans_->by_qubits[qubits];
  if (!plan) plan = std::make_unique<engine::Plan>(gates_, constants_, qubits, params_);
  plans_->usual.store(plan.get(), std::memory_order_release);
  return *plan;
}

}  // namespace bellhop
