// kernels/kernels_portable_single.cc: kernels/kernels.inc in registers of 4 floats.
#define BELLHOP_INSTRUCTION_SET portable_single
#define BELLHOP_REAL float
#define BELLHOP_LANES 4
#include "kernels/kernels.inc"
