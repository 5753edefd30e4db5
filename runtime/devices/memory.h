// devices/memory.h: refusing states that do not fit into the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bellhop {

enum class Memory : std::uint8_t {
  kFree,  // by now, without swapping
  kAll,   // that the machine has
};

// CircuitError where so many state vectors of so many qubits, or the samples of so
// many shots of them, take more memory than that. Linux promises memory that it does
// not have, and ends the process when it is used.
void expect_memory(Memory memory, std::size_t qubits, std::size_t states = 1,
                   std::size_t shots = 0);

}  // namespace bellhop
