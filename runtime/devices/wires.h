// devices/wires.h: wires of a circuit, and the plugin's names of its qubits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/device_pool.h"

namespace bellhop {

// A wire of a gate as the contract writes it: its number, or below zero the place of
// one that the program computes. A type of its own, so that no number of a run is taken
// for one: a computed wire may be below zero.
enum class WireCode : std::int64_t {};

inline bool is_dynamic(WireCode code) { return static_cast<std::int64_t>(code) < 0; }

// Which of the computed wires a code means.
inline std::size_t dynamic_index(WireCode code) {
  return static_cast<std::size_t>(-1 - static_cast<std::int64_t>(code));
}

// `dynamic_wires` has as many as the codes of its run refer to: GateTable::check_sizes.
inline std::int64_t resolve(WireCode code,
                            std::span<const std::int32_t> dynamic_wires) {
  return is_dynamic(code) ? dynamic_wires[dynamic_index(code)]
                          : static_cast<std::int64_t>(code);
}

inline std::int64_t resolve(std::int64_t wire, std::span<const std::int32_t>) {
  return wire;
}

// Where no device has the qubits, they are named by their numbers.
inline Qubits numbered(std::size_t qubits) {
  std::vector<QubitIdType> names(qubits);
  std::iota(names.begin(), names.end(), 0);
  return Qubits(std::move(names));
}

// Writes the plugin's names of `wires` to `out`.
template <typename Wire>
void map_wires(std::vector<QubitIdType>& out, const std::vector<Wire>& wires,
               const Qubits& qubits, std::span<const std::int32_t> dynamic_wires = {}) {
  out.resize(wires.size());
  for (std::size_t i = 0; i < wires.size(); ++i) {
    out[i] = qubits[resolve(wires[i], dynamic_wires)];
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

template <typename Wire>
std::string wire_list(const std::vector<Wire>& wires,
                      std::span<const std::int32_t> dynamic_wires = {}) {
  std::string text = "[";
  for (std::size_t i = 0; i < wires.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(resolve(wires[i], dynamic_wires));
  }
  return text + "]";
}

}  // namespace bellhop
