// devices/device_pool.cc: plugin libraries, and devices kept between circuits.
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

// A state vector of this many qubits is 1 MiB. Larger ones are freed while idle:
// by then the time for their allocation is small beside that of one gate.
constexpr std::size_t kQubitsKeptIdle = 16;

// The interface cannot delete an observable, so a device that has been given
// this many (or so large ones) is not used again. Building a new device takes 2
// us, which spread over as many observables is nothing.
constexpr std::size_t kObservableLoadKept = 4096;

// Nor one whose observables may hold as much memory of the states that it had: a few
// bytes that the allocator has cut from the place of the last state keep the next one
// from there, and the heap would grow by a state with each circuit.
constexpr std::size_t kAmplitudesHeld =
    (std::size_t{4} << 20) / sizeof(std::complex<double>);

void* open_library(const std::string& library) {
  // Libraries may start threads when they are loaded.
  const DefaultFloatingPointEnvironment environment;
  // Never closed: devices and exceptions of the plugin may outlive any owner.
  // RTLD_LOCAL keeps plugins that share class names apart.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw CircuitError("The device plugin '" + library + "' cannot be loaded: " +
                       (reason != nullptr ? reason : "no reason given") +
                       ". Reinstall the package of this device.");
  }
  return handle;
}

// Whether a plugin is built for the processors of a GPU: Kokkos' constructors of these.
bool is_built_for_gpu(void* library) {
  return std::ranges::any_of(
      std::array{"_ZN6Kokkos4CudaC1Ev", "_ZN6Kokkos3HIPC1Ev", "_ZN6Kokkos4SYCLC1Ev"},
      [&](const char* name) { return dlsym(library, name) != nullptr; });
}

void set_to_zero(Device& device) {
  device.bits.assign(device.qubits.size(), 0);
  auto bits = view_of(device.bits.data(), device.bits.size());
  device.plugin->SetBasisState(bits, device.qubits.all());
}

}  // namespace

void Qubits::refuse(std::int64_t wire, std::size_t qubits) {
  // The program brings what it computes to 32 bits.
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
    throw CircuitError("The device plugin's " + home.name_ + "(\"" + home.kwargs_ +
                       "\") returned no device.");
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
  // Leaked on purpose: plugins have static objects of their own, which may be
  // gone by the time ours are destroyed.
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<std::tuple<std::string, std::string, std::string>,
                                     std::unique_ptr<DevicePool>>;

  std::lock_guard lock(mutex);
  auto& pool = pools[{library, factory, kwargs}];
  if (pool == nullptr) {
    const std::string symbol = factory + "Factory";
    void* opened = open_library(library);
    void* address = dlsym(opened, symbol.c_str());
    if (address == nullptr) {
      throw CircuitError(
          "The device plugin '" + library + "' has no function '" + symbol +
          "'. Expected a plugin tested with Bellhop: " + kTestedPlugins + ".");
    }
    pool.reset(
        new DevicePool(opened, reinterpret_cast<Factory>(address), factory, kwargs));
    // XLA hands the pool to other threads; they see by its lock what was made here.
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
      throw CircuitError("The device " + name_ + " was asked for " +
                         std::to_string(qubits) + " qubits and allocated " +
                         std::to_string(device->qubits.size()) + ".");
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
  // Of other plugins it is not certain that a basis state clears all amplitudes.
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
    // On Lightning a basis state of all qubits is a whole new state, 70 times faster
    // at 4 qubits than releasing and allocating them. Of other plugins only the
    // latter is certain.
    if (qubits > 0 && (!is_lightning_ || qubits > kQubitsKeptIdle)) {
      device->plugin->ReleaseQubits(device->qubits.all());
      device->qubits = {};
    }
    std::lock_guard lock(mutex_);
    idle_[qubits].push_back(std::move(device));
  } catch (...) {
    // A device that cannot be cleared is dropped; the next circuit makes another.
  }
}

}  // namespace bellhop
