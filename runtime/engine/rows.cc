// engine/rows.cc: circuits in the engine, the rows of a batch as many at a time as a
// register has lanes.
#include "engine/rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <memory>
#include <ranges>
#include <vector>

#include "engine/observable.h"
#include "engine/plan.h"
#include "engine/states.h"
#include "gates/gate_table.h"
#include "interpreter/signals.h"
#include "measurements/amplitudes.h"

namespace bellhop::engine {
namespace {

using Kind = Measurement::Kind;
using Lanewise = std::array<double, 8>;

// Between these it is seen whether a signal has come.
constexpr std::size_t kIterationsAtOnce = 1024;

std::atomic<std::size_t> run_so_far{0};

bool differs_by_row(const Measuring& measuring) {
  if (measuring.data.stride == 0) return false;
  return std::ranges::any_of(measuring.measurements.measurements(), [](const auto& m) {
    return engine::differs_by_row(m.observable);
  });
}

Sizes sizes_of(const Session& session) {
  Sizes sizes;
  for (const Step& step : session.steps) {
    sizes.fit(step.gates->plan(session.qubits).program());
  }
  return sizes;
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
        programs_(batch.steps.size()),
        padded_(batch.steps.size()) {}

  void run(std::size_t first, std::size_t count) {
    first_ = first;
    count_ = count;
    segments_.clear();
    for (std::size_t i = 0; i < programs_.size(); ++i) add_segments(i);
    const Amplitudes ket = states_.get(0);
    states_.set_zero_state(ket);
    for (const Segment& segment : segments_) {
      check_signals();
      sweeps().forward(states_.layout(), &segment, 1, ket, states_.scratch());
    }
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
  // Those of step i. Programs are those of the session's plans, which outlive them.
  void add_segments(std::size_t i) {
    const Step& step = batch_.steps[i];
    const Program& program = programs_[i] = step.gates->plan(batch_.qubits).program();
    const double* const parameters = parameters_of(i);
    const auto iterations = static_cast<std::size_t>(step.iterations);
    for (std::size_t t = 0; t < iterations; t += kIterationsAtOnce) {
      const std::size_t before = t * program.parameters;
      const std::int64_t column =
          step.offset < 0 ? -1 : step.offset + static_cast<std::int64_t>(before);
      segments_.push_back({&program, std::min(iterations - t, kIterationsAtOnce),
                           parameters + before, step.params.stride, column});
    }
  }

  // Of the first row of step i, with those of the others behind it.
  const double* parameters_of(std::size_t i) {
    const PerRow<std::vector<double>>& params = batch_.steps[i].params;
    if (params.stride == 0) return params.values.data();
    if (count_ == states_.lanes()) return params.of(first_).data();
    // The last row once more in the lanes that are left, so that none reads past the
    // end.
    std::vector<double>& padded = padded_[i];
    padded.clear();
    for (std::size_t lane = 0; lane < states_.lanes(); ++lane) {
      const auto row = params.of(first_ + std::min(lane, count_ - 1));
      padded.insert(padded.end(), row.begin(), row.end());
    }
    return padded.data();
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
    for (const Segment& segment : segments_ | std::views::reverse) {
      check_signals();
      sweeps().backward(states_.layout(), &segment, 1, ket, bras.data(), bras.size(),
                        of_rows.data(), jacobians_->columns, size, count_,
                        states_.scratch());
    }
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

void run_one(Session& session, const Measuring& measuring, const Jacobians* jacobians) {
  const Layout layout{session.qubits, /*rows_in_lanes=*/false};
  Group(session, measuring, jacobians, layout, sizes_of(session)).run(0, 1);
  if (jacobians == nullptr) return;
  session.jacobian.emplace(jacobians->values.begin(), jacobians->values.end());
  // There are no dynamic-count parameters, and their derivative may be asked for.
  session.dynamic_count.begin(jacobians->expvals, 0);
}

void run_rows(const Session& batch, const Measuring& measuring,
              const Jacobians* jacobians, const Helpers& helpers) {
  const Sizes sizes = sizes_of(batch);
  const bool in_lanes = batch.rows > 1 && !differs_by_row(measuring);
  const Layout layout{batch.qubits, in_lanes};
  const std::size_t lanes = in_lanes ? sweeps().lanes : 1;
  for_each_row((batch.rows + lanes - 1) / lanes, helpers, [&]() -> RowWorker {
    const auto group =
        std::make_shared<Group>(batch, measuring, jacobians, layout, sizes);
    return [&batch, group, lanes](std::size_t number) {
      const std::size_t first = number * lanes;
      group->run(first, std::min(lanes, batch.rows - first));
    };
  });
}

}  // namespace

void run(Session& session, const Measuring& measuring, const Jacobians* jacobians,
         const Helpers& helpers) {
  run_so_far.fetch_add(std::max<std::size_t>(session.rows, 1),
                       std::memory_order_relaxed);
  if (session.rows == 0) {
    run_one(session, measuring, jacobians);
  } else {
    run_rows(session, measuring, jacobians, helpers);
  }
}

std::size_t rows_in_engine() noexcept {
  return run_so_far.load(std::memory_order_relaxed);
}

}  // namespace bellhop::engine
