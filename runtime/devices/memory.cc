// devices/memory.cc: raise errors for states that do not fit into the host's memory.
#include "devices/memory.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "devices/error.h"

namespace bellhop {
namespace {

// Smaller sizes are not checked: 32 MiB.
constexpr double kFewBytes = 1 << 25;

}  // namespace

void expect_memory(Memory memory, const MemoryNeeded& needed) {
  const auto [qubits, states, shots, amplitude] = needed;
  constexpr std::size_t kInfinite = 2000;  // qubits
  const double state = std::ldexp(static_cast<double>(amplitude),
                                  static_cast<int>(std::min(qubits, kInfinite)));
  const double bytes = static_cast<double>(states) * state +
                       static_cast<double>(shots) *
                           static_cast<double>(std::max<std::size_t>(qubits, 1)) *
                           sizeof(double);
  if (bytes < kFewBytes) return;
  const bool all = memory == Memory::kAll;
  const double there_is = memory_for_process(memory);
  if (bytes <= there_is) return;
  std::string what = std::to_string(qubits) + " qubits";
  if (states > 1) what = std::to_string(states) + " states of " + what;
  if (shots > 0) what += " and " + std::to_string(shots) + " shots";
  throw CircuitError(what + " take " + format_gib(bytes) + " of memory, and " +
                     (all ? "this process may have " + format_gib(there_is)
                          : format_gib(there_is) + " are free") +
                     ". Use fewer wires" + (shots > 0 ? " or shots." : "."));
}

void expect_numbers(std::size_t count, const char* what) {
  const double bytes = static_cast<double>(count) * sizeof(double);
  if (bytes < kFewBytes) return;
  const double free = memory_for_process(Memory::kFree);
  if (bytes <= free) return;
  throw CircuitError(std::string(what) + " takes " + format_gib(bytes) +
                     " of memory, and " + format_gib(free) +
                     " are free. Use fewer parameters.");
}

}  // namespace bellhop
