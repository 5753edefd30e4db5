// measurements/shadow_snapshots.cc: classical shadows, which measure each shot in a
// random basis.
#include "measurements/shadow_snapshots.h"

#include <algorithm>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "devices/checked_size.h"
#include "devices/wires.h"
#include "interpreter/signals.h"

namespace bellhop {
namespace {

constexpr std::uint8_t kX = 0;
constexpr std::uint8_t kY = 1;
// Marks the identity in a Pauli word.
constexpr std::int64_t kIdentityBasis = 3;

// Rotates the basis of a wire to the computational basis, or back.
void rotate(Device& device, QubitIdType qubit, std::uint8_t basis, bool back) {
  static const std::string kNames[] = {"RY", "RX"};
  if (basis != kX && basis != kY) return;
  const double angle = basis == kX ? -std::numbers::pi / 2 : std::numbers::pi / 2;
  device.wires.assign(1, qubit);
  device.params.assign(1, back ? -angle : angle);
  device.plugin->NamedOperation(kNames[basis], device.params, device.wires, false, {},
                                {}, {});
}

class Snapshots {
 public:
  Snapshots(Device& device, const Measurement& measurement,
            std::span<const double> data)
      : device_(device), measurement_(measurement), data_(data) {
    map_wires(device.wires, measurement.wires, device.qubits);  // for its check
    if (measurement.recipes < 0) return;
    constexpr const char* kBases = "bases of snapshots";
    expect_count(checked_product(device.shots, measurement.wires.size(), kBases),
                 measurement.bases, kBases);
    data_ = checked_part(data, static_cast<std::size_t>(measurement.recipes),
                         measurement.bases, kBases);
  }

  // Calls visit(outcomes, bases) for each shot; both have an element for every wire.
  template <typename Visit>
  void take(const Visit& visit) {
    const std::size_t wires = measurement_.wires.size();
    std::vector<std::uint8_t> bases(wires);
    std::vector<std::uint8_t> outcomes(wires);
    std::vector<double> row(device_.qubits.size());
    device_.plugin->SetDeviceShots(1);
    for (std::size_t shot = 0; shot < device_.shots; ++shot) {
      check_signals();
      for (std::size_t i = 0; i < wires; ++i) {
        bases[i] = basis(shot * wires + i);
        rotate(device_, qubit(i), bases[i], false);
      }
      DataView<double, 2> sample{row.data(), 0, {1, row.size()}, {row.size(), 1}};
      device_.plugin->Sample(sample);
      for (std::size_t i = 0; i < wires; ++i) {
        rotate(device_, qubit(i), bases[i], true);
        outcomes[i] = row[static_cast<std::size_t>(measurement_.wires[i])] != 0 ? 1 : 0;
      }
      visit(outcomes, bases);
    }
    device_.plugin->SetDeviceShots(device_.shots);
  }

 private:
  QubitIdType qubit(std::size_t i) const {
    return device_.qubits[static_cast<std::size_t>(measurement_.wires[i])];
  }

  std::uint8_t basis(std::size_t place) {
    if (measurement_.recipes >= 0) {
      const double basis = data_[place];
      // Converting an out-of-range number to an integer is undefined behaviour.
      if (!(basis >= 0 && basis < 3)) {
        throw CircuitError("basis of a snapshot: expected 0, 1 or 2, got " +
                           std::to_string(basis) + "." + kDamaged);
      }
      return static_cast<std::uint8_t>(basis);
    }
    return static_cast<std::uint8_t>(
        std::uniform_int_distribution<>(0, 2)(device_.generator));
  }

  Device& device_;
  const Measurement& measurement_;
  std::span<const double> data_;  // the bases, if they are given
};

// Returns the estimate of a Pauli word from a snapshot: the product of 3 for each
// factor, with the sign of its outcome; 0 if a factor was measured in another basis.
double value_of(std::span<const std::int64_t> word,
                std::span<const std::uint8_t> outcomes,
                std::span<const std::uint8_t> bases) {
  double value = 1;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == kIdentityBasis) continue;
    if (word[i] != bases[i]) return 0;
    value *= outcomes[i] == 1 ? -3 : 3;
  }
  return value;
}

}  // namespace

void write_snapshots(Device& device, const Measurement& measurement,
                     std::span<const double> data, std::span<std::uint8_t> out) {
  auto next = out.begin();
  Snapshots(device, measurement, data).take([&](auto& outcomes, auto& bases) {
    next = std::ranges::copy(outcomes, next).out;
    next = std::ranges::copy(bases, next).out;
  });
}

void write_snapshot_means(Device& device, const Measurement& measurement,
                          std::span<const double> data, std::span<double> out) {
  const std::size_t wires = measurement.wires.size();
  const std::size_t words = measurement.words.size() / wires;
  std::ranges::fill(out, 0.0);
  auto group = measurement.groups.begin();
  std::size_t shot = 0;
  Snapshots(device, measurement, data).take([&](auto& outcomes, auto& bases) {
    if (shot == *group) {
      ++group;
      shot = 0;
      out = out.subspan(words);
    }
    for (std::size_t i = 0; i < words; ++i) {
      const auto word = std::span(measurement.words).subspan(i * wires, wires);
      out[i] += value_of(word, outcomes, bases) / static_cast<double>(*group);
    }
    ++shot;
  });
}

}  // namespace bellhop
