// derivatives/replay.cc: gates that were kept, run on devices of their own.
#include "derivatives/replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "circuit/run_seeds.h"
#include "derivatives/jacobian.h"
#include "engine/choice.h"
#include "engine/single.h"
#include "gates/gate_table.h"
#include "measurements/mid_measurement.h"

namespace bellhop {
namespace {

// Lightning applies a gate on one thread, whatever the size of the state, so rows pay
// as long as there is memory for the states that are worked on at a time: so many bytes
// of them all together. What is left of the plugin's own threads is shared among them.
constexpr std::size_t kBytesOfStates = std::size_t{1} << 30;

// How many threads may run circuits of so many qubits.
std::size_t teams(std::size_t qubits, const Helpers& helpers, std::size_t runs) {
  const std::size_t by_memory = (kBytesOfStates / sizeof(std::complex<double>)) >>
                                std::min<std::size_t>(qubits, 63);
  return std::max<std::size_t>(1, std::min({by_memory, helpers.threads, runs}));
}

// Where the circuit is run, beside what its steps hold: the static-count parameters,
// which are null where each step has its own, and shifts of dynamic-count ones.
struct Point {
  std::span<const double> params;
  std::vector<Shift> dynamic_count;
};

// Runs the gates that a circuit was applied, on one thread. Its device goes back to the
// pool at the end, or is destroyed where something was thrown.
class Runner {
 public:
  Runner(const Session& kept, bool adjoint, std::size_t teams)
      : kept_(kept),
        pool_(kept.device->pool),
        team_(pool_.threads(), kept.qubits, teams) {
    session_.device = pool_.take(kept.qubits, kept.device->shots);
    session_.record = adjoint;
  }
  ~Runner() {
    if (is_sound_) pool_.give(std::move(session_.device));
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  template <typename Measure>
  void run(std::size_t steps, std::size_t row, const Point& point,
           const RunSeeds& seeds, std::size_t number, Measure&& measure) {
    is_sound_ = false;
    if (is_used_) pool_.renew(session_.device);
    is_used_ = true;
    seeds.seed(session_.device->generator, number);
    session_.touched = false;
    session_.tape.clear();
    session_.dynamic_count.clear();
    session_.tape.recording = session_.record;
    if (session_.record) session_.device->plugin->StartTapeRecording();
    for (const Step& step : std::span(kept_.steps).first(steps))
      apply(step, row, point);
    measure(session_);
    if (session_.tape.recording) session_.device->plugin->StopTapeRecording();
    is_sound_ = true;
  }

 private:
  void apply(const Step& step, std::size_t row, const Point& point) {
    if (step.gates == nullptr) return project(session_, step.projection);
    step.gates->apply(session_, params_of(step, row, point), step.offset,
                      step.wires.of(row), step.iterations);
  }

  std::span<const double> params_of(const Step& step, std::size_t row,
                                    const Point& point) {
    if (is_dynamic_count(step.offset)) return shifted(step, step.params.of(row), point);
    if (step.offset < 0 || point.params.data() == nullptr) return step.params.of(row);
    return point.params.subspan(static_cast<std::size_t>(step.offset));
  }

  std::span<const double> shifted(const Step& step, std::span<const double> here,
                                  const Point& point) {
    bool is_copied = false;
    for (const auto& [number, amount] : point.dynamic_count) {
      const std::int64_t place = std::int64_t{number} - step.offset;
      if (place < 0 || place >= static_cast<std::int64_t>(here.size())) continue;
      if (!is_copied) shifted_.assign(here.begin(), here.end());
      is_copied = true;
      shifted_[static_cast<std::size_t>(place)] += amount;
    }
    return is_copied ? std::span<const double>(shifted_) : here;
  }

  const Session& kept_;
  DevicePool& pool_;
  SmallTeam team_;
  Session session_;
  std::vector<double> shifted_;
  bool is_used_ = false;
  bool is_sound_ = true;
};

void check(const Session& recorded, std::size_t params, const Points& points) {
  if (!recorded.keeps_steps) throw CircuitError("it was not begun with record = 1.");
  for (const Step& step : recorded.steps) {
    if (is_dynamic_count(step.offset)) continue;
    if (step.offset > static_cast<std::int64_t>(params)) {
      throw CircuitError("expected at least " + std::to_string(step.offset) +
                         " parameters, got " + std::to_string(params) + ".");
    }
  }
  const bool has_basis = !points.basis.empty();
  const std::size_t known = has_basis ? points.basis.size() / params : params;
  for (const std::vector<Shift>& point : points.shifts) {
    for (const Shift& shift : point) {
      if (is_dynamic_count(shift.number)) continue;
      if (shift.number < 0 || static_cast<std::size_t>(shift.number) >= known) {
        throw CircuitError("parameter " + std::to_string(shift.number) + " of " +
                           std::to_string(params) + " is shifted.");
      }
    }
  }
}

// All runs of one call.
struct Runs {
  const Session& kept;
  PerRow<std::span<const double>> params;  // of replays
  const Points& points;
  const Measuring& measuring;
  const Jacobians* jacobians;

  void run(const Helpers& helpers) const {
    const std::size_t rows = std::max<std::size_t>(kept.rows, 1) * points.shifts.size();
    Helpers some = helpers;
    some.threads = teams(kept.qubits, helpers, rows);
    const RunSeeds seeds(*kept.device);
    if (jacobians != nullptr &&
        engine::differentiates_at(kept, measuring, *jacobians, rows)) {
      return for_each_row(rows, some, [&] { return engine_worker(); });
    }
    for_each_row(rows, some, [&]() -> RowWorker {
      const auto runner =
          std::make_shared<Runner>(kept, jacobians != nullptr, some.threads);
      const auto shifted = std::make_shared<std::vector<double>>();
      return [this, &seeds, runner, shifted](std::size_t number) {
        const std::size_t row = number / points.shifts.size();
        const Point at = point(row, number % points.shifts.size(), *shifted);
        const auto run = [&] {
          runner->run(points.steps, row, at, seeds, number,
                      [&](Session& session) { measure(session, row, number); });
        };
        if (kept.rows == 0) return run();
        const auto describe = [&] {
          return "Row " + std::to_string(row) + " of a batch of " +
                 std::to_string(kept.rows);
        };
        Session unused;
        unused.attempt(describe, run);
      };
    });
  }

 private:
  Point point(std::size_t row, std::size_t number, std::vector<double>& shifted) const {
    const std::span<const double> here = params.of(row);
    if (points.shifts[number].empty()) return {here, {}};
    shifted.assign(here.begin(), here.end());
    Point point{shifted, {}};
    for (const Shift& shift : points.shifts[number]) {
      if (is_dynamic_count(shift.number)) {
        point.dynamic_count.push_back(shift);
      } else if (points.basis.empty()) {
        shifted[static_cast<std::size_t>(shift.number)] += shift.amount;
      } else {
        const auto row = points.basis.subspan(
            static_cast<std::size_t>(shift.number) * here.size(), here.size());
        for (std::size_t i = 0; i < row.size(); ++i) {
          shifted[i] += shift.amount * row[i];
        }
      }
    }
    return point;
  }

  // Differentiates at a point in the engine.
  RowWorker engine_worker() const {
    const auto walk = std::make_shared<engine::Walk>(
        engine::Layout{kept.qubits, /*rows_in_lanes=*/false}, /*can_go_back=*/true);
    const auto shifted = std::make_shared<std::vector<double>>();
    return [this, walk, shifted](std::size_t number) {
      const std::size_t size = jacobians->expvals * jacobians->columns;
      engine::differentiate_at(kept, point(0, number, *shifted).params, measuring,
                               jacobians->values.subspan(number * size, size),
                               jacobians->columns, *walk);
    };
  }

  void measure(Session& session, std::size_t row, std::size_t number) const {
    std::vector<double> unused;
    std::vector<Output> outputs;
    for (const Output& output : measuring.outputs) outputs.push_back(output.of(number));
    if (outputs.empty() && jacobians != nullptr) {
      unused.resize(jacobians->expvals);
      for (double& value : unused) outputs.push_back({&value, 1});
    }
    measuring.measurements.measure(session, measuring.data.of(row), outputs);
    if (jacobians == nullptr) return;
    const std::size_t size = jacobians->expvals * jacobians->columns;
    adjoint_jacobian(session, jacobians->values.subspan(number * size, size),
                     jacobians->expvals, jacobians->columns);
    if (jacobians->by_dynamic_count.empty()) return;
    const auto& [expvals, columns, found] = session.dynamic_count.newest();
    for (std::size_t i = 0; i < expvals; ++i) {
      const auto row = jacobians->by_dynamic_count.subspan(
          (number * expvals + i) * jacobians->dynamic_count_columns, columns);
      std::ranges::copy(std::span(found).subspan(i * columns, columns), row.begin());
    }
  }
};

std::string describe() { return "A circuit that is run again for its derivative"; }

}  // namespace

void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers) {
  const Points here{{{}}, {}, batch.steps.size()};
  Runs{batch, {}, here, measuring, jacobians}.run(helpers);
}

void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Points& points, const Measuring& measuring, const Helpers& helpers) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), points);
    Runs{recorded, params, points, measuring, nullptr}.run(helpers);
  });
}

void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Points& points, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), points);
    Runs{recorded, params, points, measuring, &jacobians}.run(helpers);
  });
}

}  // namespace bellhop
