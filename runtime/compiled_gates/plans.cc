// compiled_gates/plans.cc: the cache of a gate table's plans, which are compiled on
// first use.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "compiled_gates/plan.h"
#include "gates/gate_table.h"

namespace bellhop {
namespace {

// Signals are checked after this many iterations.
constexpr std::size_t kIterationsAtOnce = 1024;

// The most gates of a plan with dynamic wires, unless one iteration has more. Loops
// that move over the wires of a circuit mostly repeat after a divisor of this number,
// and then reuse the plan.
constexpr std::size_t kGatesAtOnce = 840;

// With more gates than this in all plans with dynamic wires (10 to 25 MB), all plans
// are discarded.
constexpr std::size_t kMostGates = std::size_t{1} << 15;

using Plan = engine::Plan;

}  // namespace

struct GateTable::Plans {
  // Other threads may have added plans before XLA frees the gates' state; the lock
  // makes their writes visible.
  ~Plans() { std::lock_guard done(mutex); }

  // The plan without dynamic wires. A compiled call belongs to one circuit, and mostly
  // needs one plan.
  std::atomic<const Plan*> usual = nullptr;
  std::mutex mutex;
  // The number of qubits, and the dynamic wires and bits.
  using Key = std::pair<std::size_t, std::vector<std::int32_t>>;
  std::map<Key, std::shared_ptr<const Plan>> all;
  // The plan that was used last: a circuit looks up its plan several times.
  const std::pair<const Key, std::shared_ptr<const Plan>>* last = nullptr;
  std::size_t gates = 0;
};

std::shared_ptr<GateTable::Plans> GateTable::no_plans() {
  return std::make_shared<Plans>();
}

std::size_t GateTable::iterations_at_once() const {
  if (!is_computed()) return kIterationsAtOnce;
  return std::max<std::size_t>(1, kGatesAtOnce / gates_.size());
}

std::size_t GateTable::parts(std::size_t count) const {
  return (count + iterations_at_once() - 1) / iterations_at_once();
}

std::vector<std::int32_t> GateTable::computed(const Iterations& iterations) const {
  const auto wires = wires_of(iterations);
  std::vector<std::int32_t> numbers(wires.begin(), wires.end());
  for (std::size_t t = 0; t < iterations.count; ++t) {
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      numbers.push_back(bit_of(iterations.params[t * params_ + bits_[i]], i));
    }
  }
  return numbers;
}

GateTable::Part GateTable::part(std::size_t number, const Iterations& all,
                                std::size_t qubits) const {
  const std::size_t first = number * iterations_at_once();
  const std::size_t count = std::min(all.count - first, iterations_at_once());
  if (!is_computed()) {
    const Plan* const usual = plans_->usual.load(std::memory_order_acquire);
    // This plan is never discarded, so the pointer need not own it.
    const auto lent = [](const Plan* plan) {
      return std::shared_ptr<const Plan>(std::shared_ptr<const Plan>(), plan);
    };
    if (usual != nullptr && usual->qubits() == qubits)
      return {lent(usual), first, count};
    const Plan* const made = planned({1, nullptr, {}}, qubits).get();
    plans_->usual.store(made, std::memory_order_release);
    return {lent(made), first, count};
  }
  const Iterations here{count, all.params + first * params_,
                        all.wires.subspan(first * dynamic_wires_)};
  return {planned(here, qubits), first, 1};
}

std::shared_ptr<const Plan> GateTable::planned(const Iterations& iterations,
                                               std::size_t qubits) const {
  std::vector<std::int32_t> made;
  std::span<const std::int32_t> numbers = wires_of(iterations);
  if (!bits_.empty()) numbers = made = computed(iterations);
  Plans::Key key;
  {
    std::lock_guard lock(plans_->mutex);
    const auto* const last = plans_->last;
    if (last != nullptr && last->first.first == qubits &&
        std::ranges::equal(last->first.second, numbers)) {
      return last->second;
    }
    key = {qubits, {numbers.begin(), numbers.end()}};
    if (const auto found = plans_->all.find(key); found != plans_->all.end()) {
      plans_->last = &*found;
      return found->second;
    }
  }
  // Compiled without the lock, so that rows with different wires do not wait for each
  // other.
  auto plan = std::make_shared<const Plan>(
      engine::GatesOfPlan{gates_, constants_, params_, dynamic_wires_}, iterations,
      qubits);
  const std::size_t gates = is_computed() ? iterations.count * gates_.size() : 0;
  std::lock_guard lock(plans_->mutex);
  if (plans_->gates + gates > kMostGates) {
    plans_->all.clear();
    plans_->gates = 0;
  }
  const auto [found, is_new] = plans_->all.emplace(std::move(key), std::move(plan));
  if (is_new) plans_->gates += gates;
  plans_->last = &*found;
  return found->second;
}

bool GateTable::is_one_plan(const Step& step, std::size_t rows) const {
  const auto of_row = [&](std::size_t row) {
    return computed({static_cast<std::size_t>(step.iterations),
                     step.params.of(row).data(), step.wires.of(row)});
  };
  if (!is_computed()) return true;
  const std::vector<std::int32_t> first = of_row(0);
  for (std::size_t row = 1; row < rows; ++row) {
    if (of_row(row) != first) return false;
  }
  return true;
}

}  // namespace bellhop
