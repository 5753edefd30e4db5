// kernels/kernels_avx2.cc: kernels/kernels.inc in registers of 4 doubles.
#define BELLHOP_INSTRUCTION_SET avx2
#define BELLHOP_REAL double
#define BELLHOP_LANES 4
#include "kernels/kernels.inc"
