// kernels/kernels_avx512_single.cc: kernels/kernels.inc in registers of 16 floats.
#define BELLHOP_INSTRUCTION_SET avx512_single
#define BELLHOP_REAL float
#define BELLHOP_LANES 16
#include "kernels/kernels.inc"
