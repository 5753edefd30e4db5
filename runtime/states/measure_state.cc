// states/measure_state.cc: measurements of states of the engine.
#include "states/measure_state.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "arrays/large_memory.h"
#include "states/observable.h"
#include "states/sampling.h"

namespace bellhop::engine {
namespace {

// As few numbers of a result are for one thread, and each takes it about so long.
constexpr std::size_t kNumbersOfPart = std::size_t{1} << 15;
constexpr double kNanosecondsOfNumber = 1;

// Which outcome of `wires` amplitude i of a state of `qubits` has, of all where there
// are none; the first wire is the highest bit of an outcome.
std::size_t outcome_of(std::size_t i, const std::vector<std::int64_t>& wires,
                       std::size_t qubits) {
  std::size_t outcome = wires.empty() ? i : 0;
  for (const std::int64_t wire : wires) {
    const std::size_t bit = qubits - 1 - static_cast<std::size_t>(wire);
    outcome = outcome << 1 | (i >> bit & 1);
  }
  return outcome;
}

double probability(double real, double imag) { return real * real + imag * imag; }

template <typename Real>
void add_to(Real& sum, double number) {
  sum = static_cast<Real>(sum + number);
}

class Measurer {
 public:
  Measurer(States& states, const Measuring& measuring, const RowRange& rows,
           const Sampling& sampling, std::size_t ket = 0)
      : states_(states),
        ket_(states.get(ket)),
        measuring_(measuring),
        rows_(rows),
        sampled_(states, ket_, measuring, rows, sampling) {}

  // Adds the bras of measurement i's values, each times its weight(number, lane).
  template <typename Weight>
  void add_bra(std::size_t i, const Weight& weight, const Amplitudes& into,
               std::size_t free) {
    Lanewise factor;
    const auto fill = [&](auto&& of_lane) {
      for (std::size_t lane = 0; lane < states_.lanes(); ++lane)
        factor[lane] = of_lane(lane);
      return factor.data();
    };
    const auto weight_of = [&](std::size_t lane) { return weight(0, lane); };
    const Measurement& measurement = measuring_.measurements.measurements()[i];
    if (measurement.kind == MeasurementKind::kProbs)
      return add_projections(i, weight, into);
    if (measurement.kind == MeasurementKind::kState)
      return add_amplitudes(weight, into);
    if (measurement.kind == MeasurementKind::kFrequencies)
      return sampled_.add_bra(i, weight, into);
    if (measurement.kind == MeasurementKind::kExpval) {
      return engine::add(observable(i), fill(weight_of), states_, ket_, into, free);
    }
    // O O ket - 2 <O> O ket
    const Amplitudes once = states_.get(free);
    engine::apply(observable(i), states_, ket_, once, free + 1);
    Lanewise mean;
    real_overlap(states_, once, ket_, mean);
    engine::add(observable(i), fill(weight_of), states_, once, into, free + 1);
    fill([&](std::size_t lane) { return -2 * mean[lane] * weight(0, lane); });
    states_.sweeps().add_word(states_.layout(), {}, factor.data(), into, once);
  }

  // The value of measurement i, an expectation value whose bra this is.
  void write_overlap(std::size_t i, const Amplitudes& bra) const {
    Lanewise value;
    real_overlap(states_, bra, ket_, value);
    write_number(i, value);
  }

  // That of all values, each times its cotangent.
  void add_bras(const PerRow<std::span<const double>>& cotangents,
                const Amplitudes& into, std::size_t free) {
    std::size_t first = 0;
    const auto& all = measuring_.measurements.measurements();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto weight = [&](std::size_t k, std::size_t lane) {
        return cotangents.of(rows_.first + std::min(lane, rows_.count - 1))[first + k];
      };
      add_bra(i, weight, into, free);
      first += all[i].smooth_values(states_.layout().qubits);
    }
  }

  void measure(std::size_t i, std::size_t free) {
    switch (measuring_.measurements.measurements()[i].kind) {
      case MeasurementKind::kExpval: {
        Lanewise value;
        expectation(observable(i), states_, ket_, free, value);
        return write_number(i, value);
      }
      case MeasurementKind::kVar:
        return write_variance(i, free);
      case MeasurementKind::kProbs:
        return write_probabilities(i);
      case MeasurementKind::kState:
        return write_state(i);
      case MeasurementKind::kSample:
      case MeasurementKind::kFrequencies:
      case MeasurementKind::kRun:
        return sampled_.write(i);
      case MeasurementKind::kSnapshots:
      case MeasurementKind::kSnapshotMeans:
        return;  // never the engine's, see engine_dispatch.cc
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
    real_overlap(states_, bra, ket_, mean);
    real_overlap(states_, bra, bra, square);
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const double rounding = 1e-12 * square[lane];
      square[lane] -= mean[lane] * mean[lane];
      if (std::abs(square[lane]) < rounding) square[lane] = std::max(0.0, square[lane]);
    }
    write_number(i, square);
  }

  template <typename Weight>
  void add_projections(std::size_t i, const Weight& weight,
                       const Amplitudes& into) const {
    const std::size_t lanes = states_.lanes(), qubits = states_.layout().qubits;
    const auto& wires = measuring_.measurements.measurements()[i].wires;
    const auto add = [&](auto sum, auto ket) {
      for (std::size_t k = 0; k < std::size_t{1} << qubits; ++k) {
        const std::size_t outcome = outcome_of(k, wires, qubits);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          const double factor = weight(outcome, lane);
          const std::size_t at = k * lanes + lane;
          add_to(sum.real[at], factor * ket.real[at]);
          add_to(sum.imag[at], factor * ket.imag[at]);
        }
      }
    };
    with_numbers(states_.layout(), add, into, ket_);
  }

  template <typename Weight>
  void add_amplitudes(const Weight& weight, const Amplitudes& into) const {
    const std::size_t lanes = states_.lanes();
    const auto add = [&](auto sum) {
      for (std::size_t k = 0; k < size_of(states_); ++k) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          add_to(sum.real[k * lanes + lane], weight(2 * k, lane) / 2);
          add_to(sum.imag[k * lanes + lane], weight(2 * k + 1, lane) / 2);
        }
      }
    };
    with_numbers(states_.layout(), add, into);
  }

  void write_probabilities(std::size_t i) const {
    const std::size_t lanes = states_.lanes();
    const std::size_t qubits = states_.layout().qubits;
    const std::vector<std::int64_t>& wires =
        measuring_.measurements.measurements()[i].wires;
    bool is_in_order = wires.empty() || wires.size() == qubits;
    for (std::size_t k = 0; k < wires.size(); ++k) {
      is_in_order &= static_cast<std::size_t>(wires[k]) == k;
    }
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const Output out = output(i, lane);
      auto* probabilities = static_cast<double*>(out.data);
      prefer_huge_pages(probabilities, out.size * sizeof(double));
      const auto write = [&](auto ket) {
        const auto of = [&](std::size_t k) {
          return probability(ket.real[k * lanes + lane], ket.imag[k * lanes + lane]);
        };
        if (is_in_order) {
          return write_parts(out.size,
                             [&](std::size_t k) { probabilities[k] = of(k); });
        }
        for_each_sample(out.size, [&](std::size_t k) { probabilities[k] = 0; });
        for_each_sample(std::size_t{1} << qubits, [&](std::size_t k) {
          probabilities[outcome_of(k, wires, qubits)] += of(k);
        });
      };
      with_numbers(states_.layout(), write, ket_);
    }
  }

  // Calls write(k) for the numbers of a result. XLA's memory for a large result is new
  // at each call, and its pages are made by the threads that write them first.
  template <typename Write>
  void write_parts(std::size_t size, const Write& write) const {
    const Parts parts(size, kNumbersOfPart);
    for_each_part(parts, states_, kNanosecondsOfNumber, [&](std::size_t part) {
      for (std::size_t k = parts.begin(part); k < parts.end(part); ++k) write(k);
    });
  }

  void write_state(std::size_t i) const {
    const std::size_t lanes = states_.lanes();
    for (std::size_t lane = 0; lane < rows_.count; ++lane) {
      const Output out = output(i, lane);
      auto* const values = static_cast<std::complex<double>*>(out.data);
      prefer_huge_pages(values, out.size * sizeof(*values));
      const auto write = [&](auto ket) {
        write_parts(out.size, [&](std::size_t k) {
          values[k] = {ket.real[k * lanes + lane], ket.imag[k * lanes + lane]};
        });
      };
      with_numbers(states_.layout(), write, ket_);
    }
  }

  States& states_;
  const Amplitudes ket_;
  const Measuring& measuring_;
  const RowRange rows_;
  SampledMeasurements sampled_;
};

}  // namespace

void measure(States& states, const Measuring& measuring, const RowRange& rows,
             const Sampling& sampling) {
  Measurer measurer(states, measuring, rows, sampling);
  for (std::size_t i = 0; i < measuring.measurements.size(); ++i) {
    measurer.measure(i, 1);
  }
}

std::vector<Amplitudes> bras_of(States& states, const Measuring& measuring,
                                const RowRange& rows, const Jacobians& jacobians,
                                const Sampling& sampling) {
  std::vector<Amplitudes> bras;
  const std::size_t first = jacobians.direction ? 2 : 1;
  const std::size_t free = first + jacobians.height;
  const auto next = [&] {
    bras.push_back(states.get(first + bras.size()));
    states.set_zero(bras.back());
    return bras.back();
  };
  Measurer measurer(states, measuring, rows, sampling);
  Measurer of_tangent(states, measuring, rows, sampling, first - 1);
  if (jacobians.cotangents) {
    measurer.add_bras(*jacobians.cotangents, next(), free);
    return bras;
  }
  const auto& all = measuring.measurements.measurements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all[i].smooth_values(states.layout().qubits); ++k) {
      const auto is_it = [k](std::size_t number, std::size_t) {
        return number == k ? 1.0 : 0.0;
      };
      measurer.add_bra(i, is_it, next(), free);
      if (jacobians.direction) of_tangent.add_bra(i, is_it, next(), free);
    }
    if (measuring.outputs.empty()) continue;
    if (all[i].kind == MeasurementKind::kExpval) {
      measurer.write_overlap(i, bras.back());
    } else {
      measurer.measure(i, free);
    }
  }
  return bras;
}

}  // namespace bellhop::engine
