// engine/sweeps_portable.cc: engine/sweeps.inc in registers of 2 numbers.
#define BELLHOP_INSTRUCTION_SET portable
#define BELLHOP_LANES 2
#include "engine/sweeps.inc"
