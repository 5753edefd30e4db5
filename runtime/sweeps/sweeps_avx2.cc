// sweeps/sweeps_avx2.cc: sweeps/sweeps.inc in registers of 4 doubles.
#define BELLHOP_INSTRUCTION_SET avx2
#define BELLHOP_REAL double
#define BELLHOP_LANES 4
#include "sweeps/sweeps.inc"
