// devices/device_pool.cc: load plugin libraries, and reuse devices between circuits.
#include "devices/device_pool.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace bellhop {
namespace {

// An idle device keeps the state of up to this many qubits (1 MiB). Larger states are
// freed: their allocation takes less time than one gate.
constexpr std::size_t kQubitsKeptIdle = 16;

// The interface cannot delete observables, so a device with more observable data than
// this is not reused. A new device takes 2 us to build, which is negligible compared
// with these observables.
constexpr std::size_t kObservableLoadKept = 4096;

// A device is not reused either if its observables may take as much memory as its
// state: small blocks that the allocator places where the last state was keep the next
// state from that place, so the heap would grow by a state with each circuit.
constexpr std::size_t kAmplitudesHeld =
    (std::size_t{4} << 20) / sizeof(std::complex<double>);

// Opens a plugin library; throws CircuitError.
void* open_library(const std::string& library) {
  // Libraries may start threads while they are loaded, and threads inherit the
  // floating-point mode.
  const DefaultFloatingPointEnvironment environment;
  // Never closed, because the plugin's devices and exceptions may outlive any owner.
  // RTLD_LOCAL separates plugins that share class names.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw CircuitError("the device plugin '" + library + "' cannot be loaded: " +
                       (reason != nullptr ? reason : "no reason given") +
                       ". Reinstall the package of this device.");
  }
  return handle;
}

// Throws CircuitError for a plugin of another version of the device interface, whose
// virtual functions have another order. Calls no function of the plugin's devices.
void check_interface(void* opened, const std::string& library) {
  // The lookup covers the plugin's dependencies too, and not Bellhop's own copy.
  void* address = dlsym(opened, "bellhop_device_interface");
  if (address == nullptr) return;
  const int version = reinterpret_cast<int (*)()>(address)();
  if (version == BELLHOP_DEVICE_INTERFACE) return;
  throw CircuitError("the device plugin '" + library + "': expected version " +
                     std::to_string(BELLHOP_DEVICE_INTERFACE) +
                     " of the device interface, got version " +
                     std::to_string(version) +
                     ". Compile the plugin with the header of this Bellhop, in " +
                     "bellhop_runtime.include_dir().");
}

// Returns whether a plugin contains Kokkos' execution space for CUDA, HIP or SYCL.
bool is_built_for_gpu(void* library) {
  return std::ranges::any_of(
      std::array{"_ZN6Kokkos4CudaC1Ev", "_ZN6Kokkos3HIPC1Ev", "_ZN6Kokkos4SYCLC1Ev"},
      [&](const char* name) { return dlsym(library, name) != nullptr; });
}

// Sets all qubits of a device to zero with a basis state.
void set_to_zero(Device& device) {
  device.bits.assign(device.qubits.size(), 0);
  auto bits = view_of(device.bits.data(), device.bits.size());
  device.plugin->SetBasisState(bits, device.qubits.all());
}

}  // namespace

void Qubits::refuse(std::int64_t wire, std::size_t qubits) {
  // The program clamps dynamic wires to 32 bits.
  using Limits = std::numeric_limits<std::int32_t>;
  const std::string more = wire == Limits::max()   ? " or more"
                           : wire == Limits::min() ? " or less"
                                                   : "";
  throw CircuitError("wire " + std::to_string(wire) + more +
                     " is not in the circuit, which has wires 0 to " +
                     std::to_string(static_cast<std::int64_t>(qubits) - 1) + ".");
}

Device::Device(DevicePool& home)
    : pool(home),
      generator(std::random_device{}()),
      plugin(home.factory_, home.kwargs_.c_str()) {
  if (!plugin) {
    throw CircuitError(
        "the device plugin's factory for " + home.name_ + "(\"" + home.kwargs_ +
        "\") returned null, expected a device. Correct the device's options.");
  }
  plugin->SetDevicePRNG(&generator);
}

DevicePool::DevicePool(void* library, Factory factory, std::string name,
                       std::string kwargs)
    : factory_(factory),
      name_(std::move(name)),
      kwargs_(std::move(kwargs)),
      is_lightning_(name_.starts_with("Lightning")),
      is_in_host_memory_(!name_.starts_with("LightningGPU") &&
                         !is_built_for_gpu(library)),
      threads_(OpenMpControl::find_in(library)) {}

DevicePool& DevicePool::get(const std::string& library, const std::string& factory,
                            const std::string& kwargs) {
  // Never destroyed, because plugins have static objects that may be destroyed earlier.
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<std::tuple<std::string, std::string, std::string>,
                                     std::unique_ptr<DevicePool>>;

  std::lock_guard lock(mutex);
  auto& pool = pools[{library, factory, kwargs}];
  if (pool == nullptr) {
    const std::string symbol = factory + "Factory";
    void* opened = open_library(library);
    check_interface(opened, library);
    void* address = dlsym(opened, symbol.c_str());
    if (address == nullptr) {
      throw CircuitError("the device plugin '" + library + "' does not export '" +
                         symbol + "', expected a plugin tested with Bellhop: " +
                         kTestedPlugins + ". Install a tested version.");
    }
    pool.reset(
        new DevicePool(opened, reinterpret_cast<Factory>(address), factory, kwargs));
    // Locking the pool's mutex makes the constructed pool visible to XLA's other
    // threads.
    std::lock_guard made(pool->mutex_);
  }
  return *pool;
}

void DevicePool::expect_memory(Memory memory, const MemoryNeeded& needed) const {
  if (is_lightning_ && is_in_host_memory_) bellhop::expect_memory(memory, needed);
}

std::unique_ptr<Device> DevicePool::take(std::size_t qubits, std::size_t shots) {
  std::unique_ptr<Device> device;
  {
    std::lock_guard lock(mutex_);
    if (auto found = idle_.find(qubits);
        found != idle_.end() && !found->second.empty()) {
      device = std::move(found->second.back());
      found->second.pop_back();
    }
  }
  if (device == nullptr || !reset(*device)) {
    device = std::make_unique<Device>(*this);
  }
  if (device->qubits.size() != qubits) {
    expect_memory(Memory::kFree, {qubits});
    device->qubits = Qubits(device->plugin->AllocateQubits(qubits));
    if (device->qubits.size() != qubits) {
      throw CircuitError("AllocateQubits of the device plugin " + name_ +
                         ": expected " + std::to_string(qubits) + " qubits, got " +
                         std::to_string(device->qubits.size()) +
                         ". Report this to the authors of the plugin.");
    }
  }
  device->plugin->SetDeviceShots(shots);
  device->shots = shots;
  return device;
}

void DevicePool::clear(Device& device) const {
  if (is_lightning_) {
    set_to_zero(device);
    return;
  }
  // Other plugins may not clear all amplitudes when they set a basis state.
  const std::size_t qubits = device.qubits.size();
  device.plugin->ReleaseQubits(device.qubits.all());
  device.qubits = Qubits(device.plugin->AllocateQubits(qubits));
}

bool DevicePool::reset(Device& device) const {
  if (device.qubits.empty()) return true;
  try {
    set_to_zero(device);
    return true;
  } catch (...) {
    return false;
  }
}

bool DevicePool::is_worn_out(const Device& device) const {
  const std::size_t load = device.observable_load;
  if (load > kObservableLoadKept) return true;
  const std::size_t qubits = std::min<std::size_t>(device.qubits.size(), 32);
  return is_in_host_memory_ && load > kAmplitudesHeld >> qubits;
}

void DevicePool::renew(std::unique_ptr<Device>& device) {
  if (is_worn_out(*device)) {
    device = take(device->qubits.size(), device->shots);
  } else {
    clear(*device);
  }
}

void DevicePool::give(std::unique_ptr<Device> device) noexcept {
  if (is_worn_out(*device)) return;
  const std::size_t qubits = device->qubits.size();
  try {
    // On Lightning, setting a basis state of all qubits replaces the state, 70 times
    // faster at 4 qubits than releasing and allocating the qubits. Other plugins need
    // the latter.
    if (qubits > 0 && (!is_lightning_ || qubits > kQubitsKeptIdle)) {
      device->plugin->ReleaseQubits(device->qubits.all());
      device->qubits = {};
    }
    std::lock_guard lock(mutex_);
    idle_[qubits].push_back(std::move(device));
  } catch (...) {
    // A device that cannot be reset is destroyed; the next circuit makes a new one.
  }
}

}  // namespace bellhop
