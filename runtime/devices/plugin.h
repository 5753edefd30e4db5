// devices/plugin.h: call a plugin's device in the default floating-point environment.
#pragma once

#include <memory>

#include "bellhop/quantum_device.h"
#include "interpreter/floating_point_environment.h"

namespace bellhop {

// Owns a plugin's device, and calls it in the default floating-point environment, which
// threads that the plugin starts inherit. So the amplitudes are the same as when
// PennyLane calls the plugin. Used by one thread at a time.
class Plugin {
 public:
  using Factory = Catalyst::Runtime::QuantumDevice* (*)(const char*);

  Plugin(Factory factory, const char* kwargs) {
    const DefaultFloatingPointEnvironment environment;
    device_.reset(factory(kwargs));
  }
  ~Plugin() {
    const DefaultFloatingPointEnvironment environment;
    device_.reset();
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // Returns whether the factory returned a device.
  explicit operator bool() const { return device_ != nullptr; }

  // Provides the device for one call expression, within the default environment.
  class Call {
   public:
    explicit Call(Catalyst::Runtime::QuantumDevice& device) : device_(device) {}
    Catalyst::Runtime::QuantumDevice* operator->() const { return &device_; }

   private:
    const DefaultFloatingPointEnvironment environment_;
    Catalyst::Runtime::QuantumDevice& device_;
  };
  Call operator->() const { return Call(*device_); }

 private:
  std::unique_ptr<Catalyst::Runtime::QuantumDevice> device_;
};

}  // namespace bellhop
