// sweeps/sweeps_avx512.cc: sweeps/sweeps.inc in registers of 8 numbers.
#define BELLHOP_INSTRUCTION_SET avx512
#define BELLHOP_LANES 8
#include "sweeps/sweeps.inc"
