// measurements/measurement.h: a parsed measurement of a circuit.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bellhop/quantum_device.h"
#include "executors.h"

namespace bellhop {

// A step in building an observable, in postfix order: operands precede the step that
// combines them.
struct ObservableStep {
  enum class Kind : std::uint8_t { kNamed, kHermitian, kTensor, kCombination };

  Kind kind = Kind::kNamed;
  ObsId id = ObsId::Identity;       // kNamed
  std::vector<std::int64_t> wires;  // kNamed, kHermitian
  std::size_t operands = 0;         // kTensor, kCombination
  std::size_t data = 0;  // kHermitian, kCombination: index of the first number
};

// A coefficient times Pauli operators on different wires.
struct PauliTerm {
  static constexpr std::int64_t kOne = -1;

  std::int64_t coefficient = kOne;  // index in the data, or kOne
  std::vector<std::int64_t> wires;
  std::vector<ObsId> factors;  // one per wire
};

// A measurement of a circuit, as parsed from the contract's encoding.
struct Measurement {
  using Kind = MeasurementKind;

  Kind kind = Kind::kExpval;
  std::vector<ObservableStep> observable;
  std::vector<PauliTerm> terms;  // the observable as a sum of Pauli words, if it is one
  // The measured wires; empty for all wires in order. Not used by kExpval and kVar.
  std::vector<std::int64_t> wires;
  // kFrequencies: a shot counts -1 if an odd number of these wires is 1.
  std::vector<std::int64_t> signs;
  // kFrequencies, kSnapshotMeans: the shots of each group
  std::vector<std::size_t> groups;
  std::int64_t recipes = -1;  // kSnapshots..: index in the data of the bases, or -1
  std::size_t bases = 0;      // kSnapshots..: how many bases the data have
  std::vector<std::int64_t> words;  // kSnapshotMeans: a factor for each wire

  // Returns how many real values of the measurement can be differentiated: smooth
  // functions of the state, and frequencies (by the score function). The values of
  // amplitudes are real and imaginary parts, alternating.
  std::size_t smooth_values(std::size_t qubits) const {
    if (kind == Kind::kState) return std::size_t{2} << qubits;
    if (kind == Kind::kProbs) {
      return std::size_t{1} << (wires.empty() ? qubits : wires.size());
    }
    if (kind == Kind::kFrequencies) return groups.size() << wires.size();
    return kind == Kind::kExpval || kind == Kind::kVar ? 1 : 0;
  }
  // Returns whether the measurement needs samples, and not only mid-circuit outcomes.
  bool has_samples() const {
    if (kind == Kind::kFrequencies) return !(wires.empty() && signs.empty());
    return kind == Kind::kSample;
  }
  // Returns the number of shots of all groups.
  std::size_t shots() const {
    return std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  }
};

// The destination of a measurement's result: `size` numbers.
struct Output {
  enum class Type : std::uint8_t { kReal, kComplex, kBit };

  void* data = nullptr;
  std::size_t size = 0;
  Type type = Type::kReal;

  // Returns the output of a row, if the outputs of all rows are contiguous from `data`
  // on.
  Output of(std::size_t row) const {
    const std::size_t bytes = type == Type::kReal      ? sizeof(double)
                              : type == Type::kComplex ? sizeof(std::complex<double>)
                                                       : 1;
    return {static_cast<std::byte*>(data) + row * size * bytes, size, type};
  }
};

}  // namespace bellhop
