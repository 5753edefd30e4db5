// derivatives/replay.cc: execute the steps that a session has stored on other devices.
#include "derivatives/replay.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "circuit/execution_seeds.h"
#include "derivatives/jacobian.h"
#include "engine/engine_dispatch.h"
#include "engine/single_circuit.h"
#include "gates/gate_table.h"
#include "measurements/mid_measurement.h"

namespace bellhop {
namespace {

// The memory for the states of parallel executions. Lightning applies a gate on one
// thread, also for large states, so parallel executions are faster while their states
// fit into memory. They share the plugin's own threads.
constexpr std::size_t kBytesOfStates = std::size_t{1} << 30;

// Returns how many threads may execute circuits with this number of qubits at a time.
std::size_t count_parallel_runs(std::size_t qubits, const Helpers& helpers,
                                std::size_t runs) {
  const std::size_t by_memory = (kBytesOfStates / sizeof(std::complex<double>)) >>
                                std::min<std::size_t>(qubits, 63);
  return std::max<std::size_t>(1, std::min({by_memory, helpers.threads, runs}));
}

// The parameters of one execution: the parameters of a row of a batch, with the
// static-count parameters replaced (unless null) and shifted, and the dynamic-count
// ones shifted.
class Point {
 public:
  // Memory that one point after another uses on a thread.
  struct Scratch {
    std::vector<double> params;
    std::vector<double> step_params;
  };

  Point(const Points& points, std::size_t number, std::span<const double> params,
        std::size_t row, Scratch& scratch)
      : row_(row), params_(params), scratch_(scratch) {
    const std::vector<Shift>& shifts = points.shifts[number];
    if (shifts.empty()) return;
    scratch.params.assign(params.begin(), params.end());
    params_ = scratch.params;
    for (const Shift& shift : shifts) {
      const auto place = static_cast<std::size_t>(shift.number);
      if (is_dynamic_count(shift.number)) {
        dynamic_count_.push_back(shift);
      } else if (points.basis.empty()) {
        scratch.params[place] += shift.amount;
      } else {
        const auto row = points.basis.subspan(place * params.size(), params.size());
        for (std::size_t i = 0; i < row.size(); ++i) {
          scratch.params[i] += shift.amount * row[i];
        }
      }
    }
  }

  std::size_t row() const { return row_; }

  // Returns the parameters of a step; valid until the next call.
  std::span<const double> params_of(const Step& step) const {
    const std::span<const double> here = step.params.of(row_);
    if (is_dynamic_count(step.offset)) return shift_step_params(step, here);
    if (params_.data() == nullptr) return here;
    if (step.offset == kLastParameters) return params_.last(here.size());
    if (step.offset < 0) return here;
    return params_.subspan(static_cast<std::size_t>(step.offset));
  }

 private:
  // Returns the dynamic-count parameters of a step, shifted.
  std::span<const double> shift_step_params(const Step& step,
                                            std::span<const double> here) const {
    bool is_copied = false;
    for (const auto& [number, amount] : dynamic_count_) {
      const std::int64_t place = std::int64_t{number} - step.offset;
      if (place < 0 || place >= static_cast<std::int64_t>(here.size())) continue;
      if (!is_copied) scratch_.step_params.assign(here.begin(), here.end());
      is_copied = true;
      scratch_.step_params[static_cast<std::size_t>(place)] += amount;
    }
    return is_copied ? std::span<const double>(scratch_.step_params) : here;
  }

  std::size_t row_;
  std::span<const double> params_;
  std::vector<Shift> dynamic_count_;
  Scratch& scratch_;
};

// Executes the stored steps of a circuit on one device, which one thread uses. The
// destructor returns the device to its pool, or destroys it if an exception was thrown.
class DeviceRunner {
 public:
  DeviceRunner(const Session& kept, bool adjoint, std::size_t teams)
      : kept_(kept),
        pool_(kept.device->pool),
        team_(pool_.threads(), kept.qubits, teams) {
    session_.device = pool_.take(kept.qubits, kept.device->shots);
    session_.record = adjoint;
  }
  ~DeviceRunner() {
    if (is_sound_) pool_.give(std::move(session_.device));
  }
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  // Executes the first `steps` steps at a point and calls `measure(session)`.
  template <typename Measure>
  void run(std::size_t steps, const Point& point, const RunSeeds& seeds,
           std::size_t number, Measure&& measure) {
    is_sound_ = false;
    if (is_used_) pool_.renew(session_.device);
    is_used_ = true;
    seeds.seed(session_.device->generator, number);
    session_.touched = false;
    session_.tape = {.recording = session_.record};
    session_.dynamic_count = {};
    if (session_.record) session_.device->plugin->StartTapeRecording();
    for (const Step& step : std::span(kept_.steps).first(steps)) apply(step, point);
    measure(session_);
    if (session_.tape.recording) session_.device->plugin->StopTapeRecording();
    is_sound_ = true;
  }

 private:
  void apply(const Step& step, const Point& point) {
    if (step.gates == nullptr) return project(session_, step.projection);
    step.gates->apply(session_, point.params_of(step), step.offset,
                      step.wires.of(point.row()), step.iterations);
  }

  const Session& kept_;
  DevicePool& pool_;
  OpenMpLimit team_;
  Session session_;
  bool is_used_ = false;
  bool is_sound_ = true;
};

// Throws CircuitError unless the steps were recorded and all parameters and shifts are
// in range.
void check(const Session& recorded, std::size_t params, const Points& points) {
  if (!recorded.keeps_steps)
    throw CircuitError(
        "internal error: the circuit was started without recording its steps "
        "(record=1). Please report this as a bug in Bellhop.");
  for (const Step& step : recorded.steps) {
    if (is_dynamic_count(step.offset)) continue;
    const auto least = step.offset == kLastParameters
                           ? static_cast<std::int64_t>(step.params.of(0).size())
                           : step.offset;
    if (least > static_cast<std::int64_t>(params)) {
      throw CircuitError("derivative of a circuit: expected at least " +
                         std::to_string(least) + " parameters, got " +
                         std::to_string(params) + "." + kDamaged);
    }
  }
  const bool has_basis = !points.basis.empty();
  const std::size_t known = has_basis ? points.basis.size() / params : params;
  for (const std::vector<Shift>& point : points.shifts) {
    for (const Shift& shift : point) {
      if (is_dynamic_count(shift.number)) continue;
      if (shift.number < 0 || static_cast<std::size_t>(shift.number) >= known) {
        throw CircuitError("internal error: shift of parameter " +
                           std::to_string(shift.number) + ", " +
                           describe_indices(static_cast<std::int64_t>(known)) +
                           ". Please report this as a bug in Bellhop.");
      }
    }
  }
}

// The executions of one call: each row of the batch at each point.
struct Replays {
  const Session& kept;
  PerRow<std::span<const double>> params;  // of the circuit's static-count parameters
  const Points& points;
  const Measuring& measuring;
  const Jacobians* jacobians;

  // Executes and measures all rows at all points.
  void run(const Helpers& helpers) const {
    const std::size_t rows = std::max<std::size_t>(kept.rows, 1) * points.shifts.size();
    Helpers some = helpers;
    some.threads = count_parallel_runs(kept.qubits, helpers, rows);
    const RunSeeds seeds(*kept.device);
    const bool by_engine =
        engine::can_repeat(kept, params.size(), measuring, jacobians, rows);
    for_each_row(rows, some, [&]() -> RowWorker {
      const auto scratch = std::make_shared<Point::Scratch>();
      const Work run =
          by_engine ? make_engine_work(seeds) : make_device_work(seeds, some.threads);
      return [this, scratch, run](std::size_t number) {
        const std::size_t row = number / points.shifts.size();
        const Point point(points, number % points.shifts.size(), params.of(row), row,
                          *scratch);
        if (kept.rows == 0) return run(point, number);
        const auto describe = [&] {
          return "Row " + std::to_string(row) + " of a batch of " +
                 std::to_string(kept.rows);
        };
        Session unused;
        unused.attempt(describe, [&] { run(point, number); });
      };
    });
  }

 private:
  using Work = std::function<void(const Point&, std::size_t)>;

  // Returns a function that executes points on a plugin's device.
  Work make_device_work(const RunSeeds& seeds, std::size_t threads) const {
    const auto runner =
        std::make_shared<DeviceRunner>(kept, jacobians != nullptr, threads);
    return [this, &seeds, runner](const Point& point, std::size_t number) {
      runner->run(points.steps, point, seeds, number,
                  [&](Session& session) { measure(session, point.row(), number); });
    };
  }

  // Returns a function that executes points in the engine.
  Work make_engine_work(const RunSeeds& seeds) const {
    const auto walk = std::make_shared<engine::Walk>(
        engine::Layout{kept.qubits, /*rows_in_lanes=*/false, kept.beginning->precision},
        jacobians != nullptr);
    const engine::Sampling sampling{ShotNumbers(kept.beginning->shots), &seeds};
    return [this, sampling, walk](const Point& point, std::size_t number) {
      const Measuring of_row{
          measuring.measurements, {measuring.data.of(point.row())}, measuring.outputs};
      engine::run_again(
          std::span(kept.steps).first(points.steps), point.row(),
          [&](const Step& step) { return point.params_of(step); }, of_row, jacobians,
          number, sampling, *walk);
    };
  }

  // Measures a plugin's session, and writes outputs and Jacobian of execution `number`.
  void measure(Session& session, std::size_t row, std::size_t number) const {
    std::vector<double> unused;
    std::vector<Output> outputs;
    for (const Output& output : measuring.outputs) outputs.push_back(output.of(number));
    if (outputs.empty() && jacobians != nullptr) {
      unused.resize(jacobians->height);
      for (double& value : unused) outputs.push_back({&value, 1});
    }
    measuring.measurements.measure(session, measuring.data.of(row), outputs);
    if (jacobians == nullptr) return;
    const std::size_t size = jacobians->height * jacobians->columns;
    adjoint_jacobian(session, jacobians->values.subspan(number * size, size),
                     jacobians->height, jacobians->columns);
    if (jacobians->by_dynamic_count.empty()) return;
    const auto& [expvals, columns, found] = session.dynamic_count.newest();
    for (std::size_t i = 0; i < expvals; ++i) {
      const auto row = jacobians->by_dynamic_count.subspan(
          (number * expvals + i) * jacobians->dynamic_count_columns, columns);
      std::ranges::copy(std::span(found).subspan(i * columns, columns), row.begin());
    }
  }
};

std::string describe() { return "execution of the circuit for its derivative"; }

}  // namespace

void run_batch(const Session& batch, const Measuring& measuring,
               const Jacobians* jacobians, const Helpers& helpers) {
  const Points here{{{}}, {}, batch.steps.size()};
  Replays{batch, {}, here, measuring, jacobians}.run(helpers);
}

void replay(const Session& recorded, const PerRow<std::span<const double>>& params,
            const Points& points, const Measuring& measuring, const Helpers& helpers) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), points);
    Replays{recorded, params, points, measuring, nullptr}.run(helpers);
  });
}

void replay_jacobian(const Session& recorded,
                     const PerRow<std::span<const double>>& params,
                     const Points& points, const Measuring& measuring,
                     const Jacobians& jacobians, const Helpers& helpers) {
  Session unused;
  unused.attempt(describe, [&] {
    check(recorded, params.size(), points);
    Replays{recorded, params, points, measuring, &jacobians}.run(helpers);
  });
}

}  // namespace bellhop
