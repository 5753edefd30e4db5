// devices/memory_limits.h: find out how much memory this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bellhop {

enum class Memory : std::uint8_t {
  kFree,  // memory that is free now, without swapping
  kAll,   // the process's limit, including used memory
};

// Returns how many bytes the process may have in all, or may still allocate: the least
// of the machine's memory, RLIMIT_AS, RLIMIT_DATA, and the limits of its cgroups
// (version 1 or 2). Infinite without a limit. Reads the system's files below `root`,
// which is empty except in tests. May be called from any thread.
double memory_for_process(Memory memory, const std::string& root = "");

// Formats a number of bytes as in "1.5 GiB".
std::string format_gib(double bytes);

// Throws the CircuitError for an allocation of `bytes` bytes that failed while a
// circuit ran.
[[noreturn]] void throw_no_memory(std::size_t bytes);

// Returns the message for a failed allocation of unknown size.
std::string make_no_memory_message();

}  // namespace bellhop
