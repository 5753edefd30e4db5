// measurements/shadow_snapshots.h: classical shadows, which measure each shot in a
// random basis.
#pragma once

#include <cstdint>
#include <span>

#include "devices/device_pool.h"
#include "measurements/measurement.h"

namespace bellhop {

// Writes, for each shot, a row with the outcomes of the measurement's wires and a row
// with their bases. Leaves the state unchanged.
void write_snapshots(Device& device, const Measurement& measurement,
                     std::span<const double> data, std::span<std::uint8_t> out);

// Writes the mean of each Pauli word over each group of shots, as in the contract.
void write_snapshot_means(Device& device, const Measurement& measurement,
                          std::span<const double> data, std::span<double> out);

}  // namespace bellhop
