// sweeps/sweeps_avx2.cc: sweeps/sweeps.inc in registers of 4 numbers.
#define BELLHOP_INSTRUCTION_SET avx2
#define BELLHOP_LANES 4
#include "sweeps/sweeps.inc"
