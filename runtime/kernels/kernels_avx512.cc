// kernels/kernels_avx512.cc: kernels/kernels.inc in registers of 8 doubles.
#define BELLHOP_INSTRUCTION_SET avx512
#define BELLHOP_REAL double
#define BELLHOP_LANES 8
#include "kernels/kernels.inc"
