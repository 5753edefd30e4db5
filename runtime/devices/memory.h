// devices/memory.h: raise errors for states that do not fit into the host's memory.
#pragma once

#include <complex>
#include <cstddef>

#include "devices/memory_limits.h"

namespace bellhop {

// The size of some state vectors, and of the samples that are drawn from them.
struct MemoryNeeded {
  std::size_t qubits;
  std::size_t states = 1;
  std::size_t shots = 0;
  std::size_t amplitude = sizeof(std::complex<double>);  // bytes of one amplitude
};

// Throws CircuitError if states and samples need more than the given kind of memory.
// Linux grants memory that it does not have, and kills the process when the memory is
// used.
void expect_memory(Memory memory, const MemoryNeeded& needed);

// Throws CircuitError if `count` double-precision numbers need more than the free
// memory. `what` names them in the error.
void expect_numbers(std::size_t count, const char* what);

}  // namespace bellhop
