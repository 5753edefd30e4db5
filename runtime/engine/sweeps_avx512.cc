// engine/sweeps_avx512.cc: engine/sweeps.inc in registers of 8 numbers.
#define BELLHOP_INSTRUCTION_SET avx512
#define BELLHOP_LANES 8
#include "engine/sweeps.inc"
