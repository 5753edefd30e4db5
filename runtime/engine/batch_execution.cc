// engine/batch_execution.cc: execute circuits in the engine, as many rows of a batch at
// a time as a register has lanes.
#include "engine/batch_execution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "devices/checked_size.h"
#include "devices/memory.h"
#include "engine/engine_dispatch.h"
#include "engine/single_circuit.h"
#include "engine/state_evolution.h"
#include "engine/work_estimate.h"
#include "states/measure_state.h"
#include "states/observable.h"
#include "states/projections.h"

namespace bellhop::engine {
namespace {

std::atomic<std::size_t> run_so_far{0};

// Threads that share a state of fewer qubits wait for each other too often.
constexpr std::size_t kLeastQubitsShared = 14;

bool differs_by_row(const Measuring& measuring) {
  if (measuring.data.stride == 0) return false;
  return std::ranges::any_of(measuring.measurements.measurements(), [](const auto& m) {
    return engine::differs_by_row(m.observable);
  });
}

// The states of some rows of a batch, in the lanes of one thread's registers.
class Group {
 public:
  Group(const Session& batch, const Measuring& measuring, const Jacobians* jacobians,
        const Sampling& sampling, const Layout& layout)
      : batch_(batch),
        measuring_(measuring),
        jacobians_(jacobians),
        sampling_(sampling),
        walk_(layout, jacobians != nullptr),
        lanes_(walk_.states().lanes()),
        padded_(batch.steps.size()) {}

  // Applies all steps to rows first to first + count - 1; calls `before` with each step
  // first.
  template <typename Before>
  void forward(std::size_t first, std::size_t count, const Before& before) {
    rows_ = {first, count};
    walk_.begin(direction());
    for (std::size_t i = 0; i < batch_.steps.size(); ++i) {
      before(batch_.steps[i]);
      pad(i);
      walk_.forward(batch_.steps[i], inputs_of(i));
    }
  }

  // Lets threads share the work on a row.
  void lend(const Helpers& helpers) { walk_.states().lend(&helpers); }

  // Returns the probabilities of a wire's outcomes in a lane.
  std::array<double, 2> probabilities_of(std::int32_t wire, std::size_t lane) {
    return probabilities(walk_.states(), walk_.ket(), wire, lane);
  }

  void run(std::size_t first, std::size_t count) {
    forward(first, count, [](const Step&) {});
    if (jacobians_ == nullptr)
      return measure(walk_.states(), measuring_, rows_, sampling_);
    differentiate(bras_of(walk_.states(), measuring_, rows_, *jacobians_, sampling_));
  }

 private:
  // Returns the directions of the rows, padded like the parameters.
  Direction direction() {
    if (jacobians_ == nullptr || !jacobians_->direction) return {};
    const auto& rows = *jacobians_->direction;
    if (rows.stride == 0) return {rows.values};
    direction_.clear();
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      append_row(rows, lane, direction_);
    return {std::span(direction_).first(rows.stride), rows.stride};
  }

  bool is_full() const { return rows_.count == lanes_; }

  // If there are fewer rows than lanes, the parameters of the last row fill the other
  // lanes, so that no lane reads past the end.
  void pad(std::size_t i) {
    const PerRow<KeptNumbers>& params = batch_.steps[i].params;
    if (params.stride == 0 || is_full()) return;
    std::vector<double>& padded = padded_[i];
    padded.clear();
    for (std::size_t lane = 0; lane < lanes_; ++lane) append_row(params, lane, padded);
  }

  template <typename Rows>
  void append_row(const Rows& rows, std::size_t lane, std::vector<double>& to) const {
    const auto row = rows.of(rows_.first + std::min(lane, rows_.count - 1));
    to.insert(to.end(), row.begin(), row.end());
  }

  Walk::Inputs inputs_of(std::size_t i) const {
    const Step& step = batch_.steps[i];
    const bool as_given = step.params.stride == 0 || is_full();
    return {as_given ? step.params.of(rows_.first).data() : padded_[i].data(),
            step.params.stride,
            step.wires.of(rows_.first),
            {},
            /*are_kept=*/true};
  }

  // Undoes all steps and adds the derivatives of the rows.
  void differentiate(const std::vector<Amplitudes>& bras) {
    const std::size_t size = jacobians_->height * jacobians_->columns;
    const auto of_rows =
        jacobians_->values.subspan(rows_.first * size, rows_.count * size);
    std::ranges::fill(of_rows, 0.0);
    const Gradients gradients{bras, of_rows.data(), jacobians_->columns, size,
                              rows_.count};
    for (std::size_t i = batch_.steps.size(); i-- > 0;) {
      walk_.backward(batch_.steps[i], inputs_of(i), gradients);
    }
  }

  const Session& batch_;
  const Measuring& measuring_;
  const Jacobians* jacobians_;
  const Sampling sampling_;
  Walk walk_;
  const std::size_t lanes_;
  std::vector<std::vector<double>> padded_;  // parameters of each step
  std::vector<double> direction_;
  RowRange rows_;
};

// How the rows of a batch are run.
struct RowPlan {
  Layout layout;
  std::size_t lanes;
  std::size_t groups;  // of as many rows as there are lanes
};

RowPlan plan_rows(const Session& batch, const Measuring& measuring,
                  const Jacobians* jacobians) {
  const Precision precision = batch.beginning->precision;
  const std::size_t most = sweeps(precision).lanes;
  const std::size_t states = jacobians == nullptr ? 1 : 1 + jacobians->height;
  const bool in_lanes =
      batch.rows > 1 && !differs_by_row(measuring) &&
      std::ranges::all_of(batch.steps,
                          [&](const Step& step) {
                            return step.gates == nullptr ||
                                   (step.gates->is_one_plan(step, batch.rows) &&
                                    !has_large_operations(batch, step));
                          }) &&
      are_lanes_worthwhile(batch, most, states);
  const std::size_t lanes = in_lanes ? most : 1;
  return {{batch.qubits, in_lanes, precision}, lanes, (batch.rows + lanes - 1) / lanes};
}

// Returns how many of the groups are for one thread each. Of large states the last
// groups, fewer than there are threads, are shared by all threads, one after another.
std::size_t count_unshared(const RowPlan& plan, std::size_t threads) {
  const bool is_large =
      !plan.layout.rows_in_lanes && plan.layout.qubits >= kLeastQubitsShared;
  return is_large ? plan.groups - plan.groups % std::max<std::size_t>(threads, 1)
                  : plan.groups;
}

// Calls `work` with groups of rows, one row per lane of a register, on several threads.
template <typename Work>
void for_each_group(const Session& batch, const Measuring& measuring,
                    const Jacobians* jacobians, const Helpers& helpers,
                    const Work& work) {
  const RowPlan plan = plan_rows(batch, measuring, jacobians);
  const std::size_t lanes = plan.lanes;
  const RunSeeds seeds(*batch.device);
  const Sampling sampling{ShotNumbers(batch.beginning->shots), &seeds};
  const auto run = [&](Group& group, std::size_t number) {
    const std::size_t first = number * lanes;
    work(group, first, std::min(lanes, batch.rows - first));
  };
  const auto make_group = [&] {
    return std::make_shared<Group>(batch, measuring, jacobians, sampling, plan.layout);
  };
  const std::size_t unshared = count_unshared(plan, helpers.threads);
  for_each_row(
      unshared, helpers,
      [&]() -> RowWorker {
        return
            [&run, group = make_group()](std::size_t number) { run(*group, number); };
      },
      estimate_row_time(batch, jacobians) * static_cast<std::int64_t>(lanes));
  if (unshared == plan.groups) return;
  const auto group = make_group();
  group->lend(helpers);
  for (std::size_t number = unshared; number < plan.groups; ++number) {
    run(*group, number);
  }
}

// Executes and measures all rows of a batch.
void run_rows(const Session& batch, const Measuring& measuring,
              const Jacobians* jacobians, const Helpers& helpers) {
  for_each_group(batch, measuring, jacobians, helpers,
                 [](Group& group, std::size_t first, std::size_t count) {
                   group.run(first, count);
                 });
}

constexpr const char* kRows = "rows of a batch";

// The probabilities of a row at the measurement of a wire.
struct Likelihood {
  std::array<double, 2> both;  // of each outcome
  double postselected = 1;     // joint probability of its postselections so far
};

std::vector<Likelihood> likelihoods_of_rows(const Session& batch, std::int32_t wire,
                                            const Helpers& helpers) {
  expect_numbers(
      checked_product(batch.rows, sizeof(Likelihood) / sizeof(double), kRows), kRows);
  std::vector<Likelihood> found(batch.rows);
  const MeasurementList none{std::span<const std::int64_t>()};
  const auto work = [&](Group& group, std::size_t first, std::size_t count) {
    const auto rows = std::span(found).subspan(first, count);
    group.forward(first, count, [&](const Step& step) {
      const Projection& projection = step.projection;
      if (step.gates != nullptr || !projection.is_postselected) return;
      for (std::size_t lane = 0; lane < count; ++lane) {
        const auto both = group.probabilities_of(projection.wire, lane);
        const double sum = both[0] + both[1];
        if (sum > 0) rows[lane].postselected *= both[projection.outcome] / sum;
      }
    });
    for (std::size_t lane = 0; lane < count; ++lane) {
      rows[lane].both = group.probabilities_of(wire, lane);
    }
  };
  for_each_group(batch, {none, {}, {}}, nullptr, helpers, work);
  return found;
}

// Combines the probabilities of all rows, for the enumeration: an outcome occurs if it
// occurs in some row, and postselections have the probability of the least likely row.
Likelihood likelihood_for_all(const std::vector<Likelihood>& rows) {
  Likelihood most = rows.front();
  for (const Likelihood& row : rows) {
    for (const bool outcome : {false, true}) {
      most.both[outcome] = std::max(most.both[outcome], row.both[outcome]);
    }
    most.postselected = std::min(most.postselected, row.postselected);
  }
  return most;
}

}  // namespace

void run(Session& session, const Measuring& measuring, const Jacobians* jacobians,
         const Helpers& helpers) {
  run_so_far.fetch_add(std::max<std::size_t>(session.rows, 1),
                       std::memory_order_relaxed);
  if (session.rows == 0) {
    measure_single(session, measuring, jacobians, helpers);
  } else {
    run_rows(session, measuring, jacobians, helpers);
  }
}

bool measure_wire_of_rows(Session& batch, const MidMeasurement& measurement,
                          std::int32_t wire, const Helpers& helpers) {
  return attempt_mid_measurement(batch, measurement, wire, [&] {
    if (!batch.branches.is_tree()) require_one_circuit(batch);
    if (!may_measure(batch, wire)) Qubits::refuse(wire, batch.qubits);
    const bool postselects = measurement.postselect != MidMeasurement::kNoPostselection;
    bool outcome = measurement.postselect == 1;
    if (!postselects) {
      // If the engine cannot apply the gates, the probabilities are unknown, so both
      // outcomes are enumerated.
      Likelihood likelihood{{1, 1}};
      if (batch.branches.is_new() && runs_gates(batch)) {
        likelihood = likelihood_for_all(likelihoods_of_rows(batch, wire, helpers));
        batch.branches.all_postselected(likelihood.postselected);
      }
      outcome = next_outcome(batch, measurement, likelihood.both);
    }
    batch.steps.push_back(
        {nullptr,
         0,
         0,
         {},
         {},
         Projection{wire, outcome, measurement.reset, 1, postselects}});
    return outcome;
  });
}

std::size_t rows_in_engine() noexcept {
  return run_so_far.load(std::memory_order_relaxed);
}

}  // namespace bellhop::engine
