// compiled_gates/plans.cc: the plans of a gate table, made where they are first asked
// for.
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

// Between so many it is seen whether a signal has come.
constexpr std::size_t kIterationsAtOnce = 1024;

// A plan of computed wires has so many gates, or one iteration. What goes through the
// wires of a circuit in turn mostly begins anew after as many, with the same plan.
constexpr std::size_t kGatesAtOnce = 840;

// With more, 10 to 25 MB, all plans of computed wires are forgotten.
constexpr std::size_t kMostGates = std::size_t{1} << 15;

using Plan = engine::Plan;

}  // namespace

struct GateTable::Plans {
  // Measurements of other threads made plans, after which XLA frees the gates' state.
  ~Plans() { std::lock_guard done(mutex); }

  // A compiled call is one of one circuit, and mostly asks for one plan all its life.
  std::atomic<const Plan*> usual = nullptr;
  std::mutex mutex;
  // By qubits, and what was computed.
  using Key = std::pair<std::size_t, std::vector<std::int32_t>>;
  std::map<Key, std::shared_ptr<const Plan>> all;
  // The one that was asked for last: a circuit asks for its plan several times.
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
    // It is never forgotten, so nobody has to own it.
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
  // Rows on wires of their own need not wait for one another.
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
