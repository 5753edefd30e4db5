// devices/memory.cc: refusing what does not fit into the host's memory.
#include "devices/memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "devices/error.h"

namespace bellhop {
namespace {

// For less, nobody need ask the system: 256 MiB.
constexpr double kFewBytes = 1 << 28;

// The number behind a label of a file of the system; infinite where there is none.
double number_in(const char* file, const std::string& label) {
  std::ifstream stream(file);
  std::string word;
  double number = 0;
  while (stream >> word) {
    if (word == label && stream >> number) return number;
  }
  return std::numeric_limits<double>::infinity();
}

std::string in_gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g GiB", std::ldexp(bytes, -30));
  return text;
}

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
  const double kib = number_in("/proc/meminfo", all ? "MemTotal:" : "MemAvailable:");
  if (bytes <= 1024 * kib) return;
  std::string what = std::to_string(qubits) + " qubits";
  if (states > 1) what += ", of which there are " + std::to_string(states) + " states,";
  if (shots > 0) what += " and " + std::to_string(shots) + " shots";
  throw CircuitError(what + " take " + in_gib(bytes) + " of memory, and " +
                     (all ? "this machine has " : "free are ") + in_gib(1024 * kib) +
                     ". Use fewer wires" + (shots > 0 ? " or shots." : "."));
}

void expect_numbers(std::size_t count, const char* what) {
  const double bytes = static_cast<double>(count) * sizeof(double);
  if (bytes < kFewBytes) return;
  const double kib = number_in("/proc/meminfo", "MemAvailable:");
  if (bytes <= 1024 * kib) return;
  throw CircuitError(std::string(what) + " takes " + in_gib(bytes) +
                     " of memory, and free are " + in_gib(1024 * kib) +
                     ". Use fewer parameters.");
}

}  // namespace bellhop
