// sweeps/sweeps_portable_single.cc: sweeps/sweeps.inc in registers of 4 floats.
#define BELLHOP_INSTRUCTION_SET portable_single
#define BELLHOP_REAL float
#define BELLHOP_LANES 4
#include "sweeps/sweeps.inc"
