// measurements/measurement.h: a measurement of a circuit, as it was parsed.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bellhop/quantum_device.h"

namespace bellhop {

// A step in building an observable: operands come before what is made of them.
struct ObservableStep {
  enum class Kind : std::uint8_t { kNamed, kHermitian, kTensor, kCombination };

  Kind kind = Kind::kNamed;
  ObsId id = ObsId::Identity;       // kNamed
  std::vector<std::int64_t> wires;  // kNamed, kHermitian
  std::size_t operands = 0;         // kTensor, kCombination
  std::size_t data = 0;             // kHermitian, kCombination: index of the first
};

// A factor times Paulis on different wires.
struct PauliTerm {
  static constexpr std::int64_t kOne = -1;

  std::int64_t coefficient = kOne;  // index in the data
  std::vector<std::int64_t> wires;
  std::vector<ObsId> factors;  // one a wire
};

struct Measurement {
  enum class Kind : std::uint8_t {
    kExpval,
    kVar,
    kProbs,
    kState,
    kSample,
    kFrequencies,
    kSnapshots,
    kSnapshotMeans,
    kRun
  };

  Kind kind = Kind::kExpval;
  std::vector<ObservableStep> observable;
  std::vector<PauliTerm> terms;     // the same observable, if it is such a sum
  std::vector<std::int64_t> wires;  // of all that is below
  std::vector<std::int64_t> signs;  // kFrequencies: wires
  // kFrequencies, kSnapshotMeans: the shots of each group
  std::vector<std::size_t> groups;
  std::int64_t recipes = -1;        // kSnapshots..: index in the data, or none
  std::size_t bases = 0;            // kSnapshots..: how many numbers are there
  std::vector<std::int64_t> words;  // kSnapshotMeans: a factor for each wire

  // How many real values it has that depend on the state as a smooth function, or by
  // how likely its samples are. Of amplitudes these are real and imaginary parts in
  // turn.
  std::size_t smooth_values(std::size_t qubits) const {
    if (kind == Kind::kState) return std::size_t{2} << qubits;
    if (kind == Kind::kProbs) {
      return std::size_t{1} << (wires.empty() ? qubits : wires.size());
    }
    if (kind == Kind::kFrequencies) return groups.size() << wires.size();
    return kind == Kind::kExpval || kind == Kind::kVar ? 1 : 0;
  }
  // Whether it is made of samples, and not of outcomes in the middle alone.
  bool has_samples() const {
    if (kind == Kind::kFrequencies) return !(wires.empty() && signs.empty());
    return kind == Kind::kSample;
  }
  // Of all groups.
  std::size_t shots() const {
    return std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  }
};

// Where a measurement's result goes: `size` numbers.
struct Output {
  enum class Type : std::uint8_t { kReal, kComplex, kBit };

  void* data = nullptr;
  std::size_t size = 0;
  Type type = Type::kReal;

  // That of a row, where those of all rows follow one another from `data` on.
  Output of(std::size_t row) const {
    const std::size_t bytes = type == Type::kReal      ? sizeof(double)
                              : type == Type::kComplex ? sizeof(std::complex<double>)
                                                       : 1;
    return {static_cast<std::byte*>(data) + row * size * bytes, size, type};
  }
};

}  // namespace bellhop
