// measurements/shadow_snapshots.h: classical shadows, where each shot has a random
// basis.
#pragma once

#include <cstdint>
#include <span>

#include "devices/device_pool.h"
#include "measurements/measurement.h"

namespace bellhop {

// Writes the outcomes of a measurement's wires, and then the bases that they were
// measured in, a row of both for each shot. The state is as before afterwards.
void write_snapshots(Device& device, const Measurement& measurement,
                     std::span<const double> data, std::span<std::uint8_t> out);

// Writes the mean of each Pauli word over each group of shots, as in the contract.
void write_snapshot_means(Device& device, const Measurement& measurement,
                          std::span<const double> data, std::span<double> out);

}  // namespace bellhop
