// sweeps/sweeps_avx512.cc: sweeps/sweeps.inc in registers of 8 doubles.
#define BELLHOP_INSTRUCTION_SET avx512
#define BELLHOP_REAL double
#define BELLHOP_LANES 8
#include "sweeps/sweeps.inc"
