// devices/device_pool.h: load plugin libraries, and reuse devices between circuits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bellhop/quantum_device.h"
#include "devices/error.h"
#include "devices/memory.h"
#include "devices/plugin.h"
#include "threads/openmp_limit.h"

namespace bellhop {

// The plugin's qubit ids of a circuit's wires 0, 1, ... (a plugin may assign new ids
// after a release). Elements can be accessed only with a range check.
class Qubits {
 public:
  Qubits() = default;
  explicit Qubits(std::vector<QubitIdType> names) : names_(std::move(names)) {}

  std::size_t size() const { return names_.size(); }
  bool empty() const { return names_.empty(); }
  // The ids in the form that the plugin's functions take.
  std::vector<QubitIdType>& all() { return names_; }

  // Throws a CircuitError: a circuit with this number of qubits does not have this
  // wire.
  [[noreturn]] static void refuse(std::int64_t wire, std::size_t qubits);

  // Returns the id of a wire; throws CircuitError if the circuit has no such wire.
  QubitIdType operator[](std::int64_t wire) const {
    if (static_cast<std::uint64_t>(wire) >= names_.size()) [[unlikely]]
      refuse(wire, names_.size());
    return names_[static_cast<std::size_t>(wire)];
  }

 private:
  std::vector<QubitIdType> names_;
};

class DevicePool;

// A plugin's device with its qubits, and buffers that its calls reuse, so that repeated
// circuits of the same size allocate no memory here. Used by one thread at a time.
struct Device {
  // Makes the plugin's device, still without qubits. Throws CircuitError.
  explicit Device(DevicePool& home);

  DevicePool& pool;
  // Set as the plugin's generator: without it, Lightning requests entropy from the
  // system at every measurement, which takes half the time of an expectation value of a
  // few qubits.
  std::mt19937 generator;
  Plugin plugin;
  Qubits qubits;
  // How many coefficients and matrix entries observables have received so far; see
  // DevicePool::give.
  std::size_t observable_load = 0;
  std::size_t shots = 0;

  std::vector<double> params;
  std::vector<double> samples;
  std::vector<std::complex<double>> matrix;
  std::vector<std::int8_t> bits;
  std::vector<QubitIdType> wires;
  std::vector<QubitIdType> controls;
  std::vector<ObsIdType> observables;
  std::vector<ObsIdType> operands;
};

// The idle devices of one library, factory and keyword string. Pools are never
// destroyed, so references to them stay valid. May be used from any thread.
class DevicePool {
 public:
  // Returns the pool of a device. Opens the library on first use; throws CircuitError
  // if that fails.
  static DevicePool& get(const std::string& library, const std::string& factory,
                         const std::string& kwargs);

  // Returns a device with `qubits` qubits in the zero state, which the caller owns
  // until it calls `give`. Throws CircuitError.
  std::unique_ptr<Device> take(std::size_t qubits, std::size_t shots);

  // Throws CircuitError if the states and samples do not fit into memory. Checks only
  // Lightning devices that keep states in the host's memory.
  void expect_memory(Memory memory, const MemoryNeeded& needed) const;

  // The name of the device's class in the plugin.
  const std::string& name() const { return name_; }

  // Whether this is a Lightning simulator of PennyLane, whose behaviour is known beyond
  // the plugin interface.
  bool is_lightning() const { return is_lightning_; }
  bool is_in_host_memory() const { return is_in_host_memory_; }

  const OpenMpControl& threads() const { return threads_; }

  // Resets a device to the zero state. The device must not be recording. The plugin may
  // throw.
  void clear(Device& device) const;

  // Resets a device for the next circuit of the same size, or replaces it if it is worn
  // out. No call of the device may have failed.
  void renew(std::unique_ptr<Device>& device);

  // Returns a device to the pool, or destroys it if it is worn out. No call of the
  // device may have failed, and it must not be recording.
  void give(std::unique_ptr<Device> device) noexcept;

 private:
  friend struct Device;
  using Factory = Plugin::Factory;

  DevicePool(void* library, Factory factory, std::string name, std::string kwargs);
  // Sets all qubits to zero; returns whether the plugin succeeded.
  bool reset(Device& device) const;
  // Returns whether the observables that the device has accumulated take so much memory
  // that the device must not be used again.
  bool is_worn_out(const Device& device) const;

  const Factory factory_;
  const std::string name_;
  const std::string kwargs_;
  const bool is_lightning_;
  const bool is_in_host_memory_;
  const OpenMpControl threads_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::unique_ptr<Device>>> idle_;  // by qubits
};

}  // namespace bellhop
