// kernels/kernels_avx2_single.cc: kernels/kernels.inc in registers of 8 floats.
#define BELLHOP_INSTRUCTION_SET avx2_single
#define BELLHOP_REAL float
#define BELLHOP_LANES 8
#include "kernels/kernels.inc"
