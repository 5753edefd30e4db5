// bellhop/wires.h: wires of a circuit, and the plugin's names of its qubits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bellhop/device_pool.h"

namespace bellhop {

inline std::int64_t resolve_wire(std::int64_t wire,
                                 std::span<const std::int32_t> dynamic_wires) {
  return wire >= 0 ? wire : dynamic_wires[-1 - wire];
}

// Writes the plugin's names of `wires` to `out`.
inline void map_wires(std::vector<QubitIdType>& out,
                      const std::vector<std::int64_t>& wires,
                      const std::vector<QubitIdType>& qubits,
                      std::span<const std::int32_t> dynamic_wires = {}) {
  out.resize(wires.size());
  for (std::size_t i = 0; i < wires.size(); ++i) {
    const std::int64_t wire = resolve_wire(wires[i], dynamic_wires);
    if (static_cast<std::uint64_t>(wire) >= qubits.size()) [[unlikely]] {
      throw CircuitError("wire " + std::to_string(wire) +
                         " is not in the circuit, which has wires 0 to " +
                         std::to_string(static_cast<std::int64_t>(qubits.size()) - 1) +
                         ".");
    }
    out[i] = qubits[wire];
  }
}

// Plugins compute nonsense, silently, where a gate names one wire twice.
template <typename Wire>
void check_distinct(const std::vector<Wire>& wires,
                    const std::vector<Wire>& controls = {}) {
  const std::size_t count = wires.size() + controls.size();
  const auto wire = [&](std::size_t i) {
    return i < wires.size() ? wires[i] : controls[i - wires.size()];
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (wire(i) == wire(j)) {
        throw CircuitError("expected different wires, got one of them twice.");
      }
    }
  }
}

inline std::string wire_list(const std::vector<std::int64_t>& wires,
                             std::span<const std::int32_t> dynamic_wires = {}) {
  std::string text = "[";
  for (std::size_t i = 0; i < wires.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(resolve_wire(wires[i], dynamic_wires));
  }
  return text + "]";
}

}  // namespace bellhop
