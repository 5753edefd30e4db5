// engine/rows.cc: rows of a batch in the engine, as many at a time as a register has
// lanes.
#include "engine/rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "circuit/dynamic_count.h"
#include "engine/observable.h"
#include "engine/plan.h"
#include "engine/states.h"
#include "gates/gate_table.h"
#include "measurements/amplitudes.h"

namespace bellhop::engine {
namespace {

using Kind = Measurement::Kind;
using Lanewise = std::array<double, 8>;

// Measured up to here: value and gradient of 32 rows of 12 qubits take 9.6 ms, and 57
// by Lightning (two cores, AVX2). Of larger ones the two states of a group do not fit
// the second cache.
constexpr std::size_t kMostQubits = 12;

std::atomic<std::size_t> run_so_far{0};

// Wires that there are not are the plugin's to refuse.
bool are_there(const std::vector<std::int64_t>& wires, std::size_t qubits) {
  return std::ranges::all_of(wires, [&](std::int64_t wire) {
    return wire >= 0 && wire < static_cast<std::int64_t>(qubits);
  });
}

bool measures(const Measurement& measurement, std::size_t qubits) {
  if (!are_there(measurement.wires, qubits)) return false;
  switch (measurement.kind) {
    case Kind::kExpval:
    case Kind::kVar:
      return std::ranges::all_of(
          measurement.observable, [&](const ObservableStep& step) {
            return step.wires.size() <= kMostTargets && are_there(step.wires, qubits);
          });
    case Kind::kProbs:
    case Kind::kState:
      return true;
    case Kind::kSample:
    case Kind::kFrequencies:
      return false;
  }
  return false;
}

bool differs_by_row(const Measuring& measuring) {
  if (measuring.data.stride == 0) return false;
  return std::ranges::any_of(measuring.measurements.measurements(), [](const auto& m) {
    return engine::differs_by_row(m.observable);
  });
}

// Rows first .. first + count, in the lanes of one thread's states.
class Group {
 public:
  Group(const Session& batch, const Measuring& measuring, const Jacobians* jacobians,
        const Layout& layout, const Sizes& sizes)
      : batch_(batch),
        measuring_(measuring),
        jacobians_(jacobians),
        states_(layout, sizes),
        free_(1 + (jacobians == nullptr ? 0 : jacobians->expvals)),
        segments_(batch.steps.size()),
        programs_(batch.steps.size()),
        padded_(batch.steps.size()) {}

  void run(std::size_t first, std::size_t count) {
    first_ = first;
    count_ = count;
    for (std::size_t i = 0; i < segments_.size(); ++i) segments_[i] = segment(i);
    const Amplitudes ket = states_.get(0);
    states_.set_zero_state(ket);
    sweeps().forward(states_.layout(), segments_.data(), segments_.size(), ket,
                     states_.scratch());
    const auto& all = measuring_.measurements.measurements();
    std::vector<Amplitudes> bras;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (jacobians_ != nullptr && all[i].kind == Kind::kExpval) {
        bras.push_back(states_.get(1 + bras.size()));
        engine::apply(observable(all[i]), states_, ket, bras.back(), free_);
        Lanewise value;
        real_overlap(states_, bras.back(), ket, value.data());
        if (!measuring_.outputs.empty()) write_number(i, value);
      } else if (!measuring_.outputs.empty()) {
        measure(i, all[i], ket);
      }
    }
    if (jacobians_ != nullptr) differentiate(ket, bras);
  }

 private:
  // Programs are those of `batch_`'s plans, which outlive the segments.
  Segment segment(std::size_t i) {
    const Step& step = batch_.steps[i];
    programs_[i] = step.gates->plan(batch_.qubits).program();
    Segment out{&programs_[i], static_cast<std::size_t>(step.iterations),
                step.params.values.data(), step.params.stride, step.offset};
    if (step.params.stride == 0) return out;
    out.parameters += first_ * step.params.stride;
    if (count_ == states_.lanes()) return out;
    // The last row once more in the lanes that are left, so that none reads past the
    // end.
    std::vector<double>& padded = padded_[i];
    padded.clear();
    for (std::size_t lane = 0; lane < states_.lanes(); ++lane) {
      const auto row = step.params.of(first_ + std::min(lane, count_ - 1));
      padded.insert(padded.end(), row.begin(), row.end());
    }
    out.parameters = padded.data();
    return out;
  }

  Observable observable(const Measurement& measurement) const {
    return {measurement.observable, measurement.terms, measuring_.data, first_, count_};
  }

  void write_number(std::size_t i, const Lanewise& values) const {
    for (std::size_t lane = 0; lane < count_; ++lane) {
      const Output out = measuring_.outputs[i].of(first_ + lane);
      *static_cast<double*>(out.data) = values[lane];
    }
  }

  void measure(std::size_t i, const Measurement& measurement, const Amplitudes& ket) {
    switch (measurement.kind) {
      case Kind::kExpval: {
        Lanewise value;
        expectation(observable(measurement), states_, ket, free_, value.data());
        return write_number(i, value);
      }
      case Kind::kVar: {
        // |O ket|^2 - <O>^2, and a variance is not below zero.
        const Amplitudes bra = states_.get(free_);
        engine::apply(observable(measurement), states_, ket, bra, free_ + 1);
        Lanewise mean, square;
        real_overlap(states_, bra, ket, mean.data());
        real_overlap(states_, bra, bra, square.data());
        for (std::size_t lane = 0; lane < count_; ++lane) {
          square[lane] = std::max(0.0, square[lane] - mean[lane] * mean[lane]);
        }
        return write_number(i, square);
      }
      case Kind::kProbs:
        return write_probabilities(i, measurement, ket);
      default:
        return write_state(i, ket);
    }
  }

  void write_probabilities(std::size_t i, const Measurement& measurement,
                           const Amplitudes& ket) const {
    const std::size_t lanes = states_.lanes();
    for (std::size_t lane = 0; lane < count_; ++lane) {
      const Output out = measuring_.outputs[i].of(first_ + lane);
      probabilities(
          measurement.wires, batch_.qubits,
          [&](std::size_t k) {
            const double real = ket.real[k * lanes + lane];
            const double imag = ket.imag[k * lanes + lane];
            return real * real + imag * imag;
          },
          std::span(static_cast<double*>(out.data), out.size));
    }
  }

  void write_state(std::size_t i, const Amplitudes& ket) const {
    const std::size_t lanes = states_.lanes();
    for (std::size_t lane = 0; lane < count_; ++lane) {
      const Output out = measuring_.outputs[i].of(first_ + lane);
      auto* const values = static_cast<std::complex<double>*>(out.data);
      for (std::size_t k = 0; k < out.size; ++k) {
        values[k] = {ket.real[k * lanes + lane], ket.imag[k * lanes + lane]};
      }
    }
  }

  void differentiate(const Amplitudes& ket, const std::vector<Amplitudes>& bras) {
    const std::size_t size = jacobians_->expvals * jacobians_->columns;
    const auto of_rows = jacobians_->values.subspan(first_ * size, count_ * size);
    std::ranges::fill(of_rows, 0.0);
    sweeps().backward(states_.layout(), segments_.data(), segments_.size(), ket,
                      bras.data(), bras.size(), of_rows.data(), jacobians_->columns,
                      size, count_, states_.scratch());
  }

  const Session& batch_;
  const Measuring& measuring_;
  const Jacobians* jacobians_;
  States states_;
  // State 0 is the ket, the next are the bras, and from here on they are free.
  const std::size_t free_;
  std::vector<Segment> segments_;
  std::vector<Program> programs_;
  std::vector<std::vector<double>> padded_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace

bool runs(const Session& batch, const Measuring& measuring,
          const Jacobians* jacobians) {
  const Device& device = *batch.device;
  if (!device.pool.is_lightning() || device.shots != 0 || batch.qubits == 0 ||
      batch.qubits > kMostQubits) {
    return false;
  }
  bool is_first = true;
  for (const Step& step : batch.steps) {
    if (step.gates == nullptr) return false;
    const Plan& plan = step.gates->plan(batch.qubits);
    if (!plan.not_applied().empty() || (!is_first && plan.prepares_state()))
      return false;
    is_first = false;
    if (jacobians == nullptr || step.offset < 0) continue;
    if (is_dynamic_count(step.offset) || !plan.not_differentiated().empty())
      return false;
    const std::size_t end =
        static_cast<std::size_t>(step.offset) +
        static_cast<std::size_t>(step.iterations) * plan.program().parameters;
    if (end > jacobians->columns) return false;
  }
  return std::ranges::all_of(
      measuring.measurements.measurements(),
      [&](const Measurement& each) { return measures(each, batch.qubits); });
}

void run_rows(const Session& batch, const Measuring& measuring,
              const Jacobians* jacobians, const Helpers& helpers) {
  Sizes sizes;
  for (const Step& step : batch.steps) {
    sizes.fit(step.gates->plan(batch.qubits).program());
  }
  const bool in_lanes = batch.rows > 1 && !differs_by_row(measuring);
  const Layout layout{batch.qubits, in_lanes};
  const std::size_t lanes = in_lanes ? sweeps().lanes : 1;
  run_so_far.fetch_add(batch.rows, std::memory_order_relaxed);
  for_each_row((batch.rows + lanes - 1) / lanes, helpers, [&]() -> RowWorker {
    const auto group =
        std::make_shared<Group>(batch, measuring, jacobians, layout, sizes);
    return [&batch, group, lanes](std::size_t number) {
      const std::size_t first = number * lanes;
      group->run(first, std::min(lanes, batch.rows - first));
    };
  });
}

std::size_t rows_in_engine() noexcept {
  return run_so_far.load(std::memory_order_relaxed);
}

}  // namespace bellhop::engine
