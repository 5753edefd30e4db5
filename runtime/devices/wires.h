// devices/wires.h: map the wires of a circuit to the plugin's qubit ids.
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

// A gate's wire as encoded in the contract: a static wire if not negative, otherwise -1
// - i for the dynamic wire with index i. A separate type, so that it cannot be confused
// with a wire's value, which may be negative if it is dynamic.
enum class WireCode : std::int64_t {};

inline bool is_dynamic(WireCode code) { return static_cast<std::int64_t>(code) < 0; }

// Returns the index of a dynamic wire among the dynamic wires.
inline std::size_t dynamic_index(WireCode code) {
  return static_cast<std::size_t>(-1 - static_cast<std::int64_t>(code));
}

// Returns the wire that a code denotes. GateTable::check_sizes has checked that
// `dynamic_wires` contains it.
inline std::int64_t resolve(WireCode code,
                            std::span<const std::int32_t> dynamic_wires) {
  return is_dynamic(code) ? dynamic_wires[dynamic_index(code)]
                          : static_cast<std::int64_t>(code);
}

inline std::int64_t resolve(std::int64_t wire, std::span<const std::int32_t>) {
  return wire;
}

// Returns qubits whose ids are 0, 1, ..., for circuits that no plugin's device runs.
inline Qubits numbered(std::size_t qubits) {
  std::vector<QubitIdType> names(qubits);
  std::iota(names.begin(), names.end(), 0);
  return Qubits(std::move(names));
}

// Writes the plugin's qubit ids of `wires` to `out`.
template <typename Wire>
void map_wires(std::vector<QubitIdType>& out, const std::vector<Wire>& wires,
               const Qubits& qubits, std::span<const std::int32_t> dynamic_wires = {}) {
  out.resize(wires.size());
  for (std::size_t i = 0; i < wires.size(); ++i) {
    out[i] = qubits[resolve(wires[i], dynamic_wires)];
  }
}

// Throws CircuitError if a wire occurs twice. Plugins would compute wrong results
// silently.
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
        throw CircuitError(
            "expected different wires, got one of them twice. Pass each wire once.");
      }
    }
  }
}

// Formats wires for errors, as in "[0, 2]". `dynamic_wires` has the values of the wires
// that are dynamic.
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
