// devices/device_pool.h: plugin libraries, and devices kept between circuits.
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

// The plugin's names of a circuit's wires 0, 1, ...: it may count on after a release.
// There is no way to one of them but by this check.
class Qubits {
 public:
  Qubits() = default;
  explicit Qubits(std::vector<QubitIdType> names) : names_(std::move(names)) {}

  std::size_t size() const { return names_.size(); }
  bool empty() const { return names_.empty(); }
  // As the plugin takes them.
  std::vector<QubitIdType>& all() { return names_; }

  // Throws that a circuit of so many has no such wire.
  [[noreturn]] static void refuse(std::int64_t wire, std::size_t qubits);

  // CircuitError where the circuit has no such wire.
  QubitIdType operator[](std::int64_t wire) const {
    if (static_cast<std::uint64_t>(wire) >= names_.size()) [[unlikely]]
      refuse(wire, names_.size());
    return names_[static_cast<std::size_t>(wire)];
  }

 private:
  std::vector<QubitIdType> names_;
};

class DevicePool;

// A plugin's device with its qubits, and the buffers that its calls refill, so
// that a circuit of a size seen before allocates nothing of ours. Used by one
// thread at a time.
struct Device {
  explicit Device(DevicePool& home);

  DevicePool& pool;
  // Lightning asks the system for entropy at every measurement unless it has a
  // generator, which is half the price of an expectation value of a few qubits.
  std::mt19937 generator;
  Plugin plugin;
  Qubits qubits;
  // Numbers and matrix entries given to observables so far; see DevicePool::give.
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

// The idle devices of one library, factory and keyword string. Pools live as
// long as the process, so a reference to one may be kept. Any thread may call.
class DevicePool {
 public:
  // Opens the library on first use; throws CircuitError where that fails.
  static DevicePool& get(const std::string& library, const std::string& factory,
                         const std::string& kwargs);

  // A device with `qubits` qubits in the zero state.
  std::unique_ptr<Device> take(std::size_t qubits, std::size_t shots);

  // CircuitError where states of these devices, and samples of them, do not fit.
  void expect_memory(Memory memory, const MemoryNeeded& needed) const;

  // The plugin's, in its library.
  const std::string& name() const { return name_; }

  // Whether this is one of PennyLane's own simulators of a state vector, of which we
  // know more than the interface says.
  bool is_lightning() const { return is_lightning_; }
  bool is_in_host_memory() const { return is_in_host_memory_; }

  const OpenMpControl& threads() const { return threads_; }

  // Brings a device, which is not recording, back to the zero state; the plugin may
  // throw.
  void clear(Device& device) const;

  // Prepares a device that no call has failed on for the next circuit of the same kind;
  // one that is worn out becomes another.
  void renew(std::unique_ptr<Device>& device);

  // Takes back a device that no call has failed on, in any state but recording.
  void give(std::unique_ptr<Device> device) noexcept;

 private:
  friend struct Device;
  using Factory = Plugin::Factory;

  DevicePool(void* library, Factory factory, std::string name, std::string kwargs);
  bool reset(Device& device) const;
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
