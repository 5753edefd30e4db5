// kernels/kernels_portable.cc: kernels/kernels.inc in registers of 2 doubles.
#define BELLHOP_INSTRUCTION_SET portable
#define BELLHOP_REAL double
#define BELLHOP_LANES 2
#include "kernels/kernels.inc"
