// sweeps/sweeps_portable.cc: sweeps/sweeps.inc in registers of 2 numbers.
#define BELLHOP_INSTRUCTION_SET portable
#define BELLHOP_LANES 2
#include "sweeps/sweeps.inc"
