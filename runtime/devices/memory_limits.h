// devices/memory_limits.h: how much memory this process may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bellhop {

enum class Memory : std::uint8_t {
  kFree,  // by now, without swapping
  kAll,   // that the process may have
};

// The bytes that the process may have, or may have besides those that it has: the least
// of the machine's memory, RLIMIT_AS and RLIMIT_DATA, and the limits of its cgroups, of
// version 1 or 2. Infinite where nothing says. Reads files below `root`, "" but for
// tests; any thread may call it.
double memory_for_process(Memory memory, const std::string& root = "");

// A number of bytes in words: "1.5 GiB".
std::string format_gib(double bytes);

// CircuitError for memory that the system has refused; from within any code of a
// circuit.
[[noreturn]] void throw_no_memory(std::size_t bytes);

// The same in words, where nobody knows how much was asked for.
std::string make_no_memory_message();

}  // namespace bellhop
