// devices/memory.h: refusing states that do not fit into the host's memory.
#pragma once

#include <complex>
#include <cstddef>

#include "devices/memory_limits.h"

namespace bellhop {

// State vectors, and samples of them.
struct MemoryNeeded {
  std::size_t qubits;
  std::size_t states = 1;
  std::size_t shots = 0;
  std::size_t amplitude = sizeof(std::complex<double>);  // bytes of one
};

// CircuitError where it takes more memory than that. Linux promises memory that it does
// not have, and ends the process when it is used.
void expect_memory(Memory memory, const MemoryNeeded& needed);

// The same for so many numbers of double precision, which `what` names.
void expect_numbers(std::size_t count, const char* what);

}  // namespace bellhop
