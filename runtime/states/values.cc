// states/values.cc: measurements of states of the engine.
#include "states/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

#include "measurements/amplitudes.h"
#include "measurements/samples.h"
#include "states/draws.h"
#include "states/observable.h"

namespace bellhop::engine {
namespace {

using Kind = Measurement::Kind;
using Lanewise = std::array<double, 8>;

class Measurer {
 public:
  Measurer(States& states, const Measuring& measuring, const RowRange& rows,
           const Sampling& sampling)
      : states_(states),
        ket_(states.get(0)),
        measuring_(measuring),
        rows_(rows),
        sampling_(sampling) {}

  // The bra of measurement i, which is an expectation value, and its value.
  void make_bra(std::size_t i, const Amplitudes& bra, std::size_t free) {
    engine::apply(observable(i), states_, ket_, bra, free);
    if (measuring_.outputs.empty()) return;
    Lanewise value;
    real_overlap(states_, bra, ket_, value.data());
    write_number(i, value);
  }

  void measure(std::size_t i, std::size_t free) {
    switch (measuring_.measurements.measurements()[i].kind) {
      case Kind::kExpval: {
        Lanewise value;
        expectation(observable(i), states_, ket_, free, value.data());
        return write_number(i, value);
      }
      case Kind::kVar:
        return write_variance(i, free);
      case Kind::kProbs:
        return write_probabilities(i);
      case Kind::kState:
        return write_state(i);
      case Kind::kSample:
      case Kind::kFrequencies:
        return write_drawn(i);
      case Kind::kSnapshots:
      case Kind::kSnapshotMeans:
        return;  // never the engine's, see choice.cc
    }
  }

 private:
  Observable observable(std::size_t i) const {
    const Measurement& measurement = measuring_.measurements.measurements()[i];
    return {measurement.observable, measurement.terms, measuring_.data, rows_.first,
            rows_.count};
  }

  // Of measurement i, in one lane.
  Output output(std::size_t i, std::size_t lane) const {
    return measuring_.outputs[i].of(rows_.first + lane);
  }

  void write_number(std::size_t i, const Lanewise& values) const {
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      *static_cast<double*>(output(i, lane).data) = values[lane];
    }
  }

  // |O ket|^2 - <O>^2. Where rounding alone made it negative it is zero; of a state of
  // another norm, which a derivative by amplitudes has, it may be less.
  void write_variance(std::size_t i, std::size_t free) {
    const Amplitudes bra = states_.get(free);
    engine::apply(observable(i), states_, ket_, bra, free + 1);
    Lanewise mean, square;
    real_overlap(states_, bra, ket_, mean.data());
    real_overlap(states_, bra, bra, square.data());
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const double rounding = 1e-12 * square[lane];
      square[lane] -= mean[lane] * mean[lane];
      if (std::abs(square[lane]) < rounding) square[lane] = std::max(0.0, square[lane]);
    }
    write_number(i, square);
  }

  void write_probabilities(std::size_t i) const {
    const std::size_t lanes = states_.lanes();
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const Output out = output(i, lane);
      probabilities(
          measuring_.measurements.measurements()[i].wires, states_.layout().qubits,
          [&](std::size_t k) {
            const double real = ket_.real[k * lanes + lane];
            const double imag = ket_.imag[k * lanes + lane];
            return real * real + imag * imag;
          },
          std::span(static_cast<double*>(out.data), out.size));
    }
  }

  // The samples of a row are the same for all measurements.
  void draw_samples() {
    if (!samples_.empty()) return;
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      std::mt19937* generator = sampling_.generator;
      std::mt19937 own;
      if (sampling_.seeds != nullptr) {
        sampling_.seeds->seed(own, rows_.first + lane);
        generator = &own;
      }
      samples_.push_back(draw(states_, ket_, lane, sampling_.shots, *generator));
    }
    if (sampling_.drawn != nullptr) *sampling_.drawn = samples_.back();
  }

  void write_drawn(std::size_t i) {
    draw_samples();
    const Measurement& measurement = measuring_.measurements.measurements()[i];
    const std::size_t qubits = states_.layout().qubits;
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const Output out = output(i, lane);
      const auto bit = [&](std::size_t shot, std::size_t wire) {
        return ((samples_[lane][shot] >> (qubits - 1 - wire)) & 1) != 0;
      };
      if (measurement.kind == Kind::kSample) {
        write_samples(measurement, qubits, sampling_.shots, bit,
                      std::span(static_cast<std::uint8_t*>(out.data), out.size));
      } else {
        write_frequencies(measurement, bit,
                          std::span(static_cast<double*>(out.data), out.size));
      }
    }
  }

  void write_state(std::size_t i) const {
    const std::size_t lanes = states_.lanes();
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const Output out = output(i, lane);
      auto* const values = static_cast<std::complex<double>*>(out.data);
      for (std::size_t k = 0; k < out.size; ++k) {
        values[k] = {ket_.real[k * lanes + lane], ket_.imag[k * lanes + lane]};
      }
    }
  }

  States& states_;
  const Amplitudes ket_;
  const Measuring& measuring_;
  const RowRange rows_;
  const Sampling& sampling_;
  std::vector<std::vector<std::uint32_t>> samples_;  // of each row
};

}  // namespace

void measure(States& states, const Measuring& measuring, const RowRange& rows,
             std::vector<Amplitudes>* bras, const Sampling& sampling) {
  const auto& all = measuring.measurements.measurements();
  const auto is_expval = [](const Measurement& m) { return m.kind == Kind::kExpval; };
  const std::size_t free =
      1 + (bras == nullptr
               ? 0
               : static_cast<std::size_t>(std::ranges::count_if(all, is_expval)));
  Measurer measurer(states, measuring, rows, sampling);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (bras != nullptr && is_expval(all[i])) {
      bras->push_back(states.get(1 + bras->size()));
      measurer.make_bra(i, bras->back(), free);
    } else if (!measuring.outputs.empty()) {
      measurer.measure(i, free);
    }
  }
}

}  // namespace bellhop::engine
