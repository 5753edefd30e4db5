"""Which of XLA's code generators makes the kernels of a program.

jaxlib 0.10 has two for the CPU.  The newer one, its default, runs a pipeline of MLIR's for each
kernel, and most of the time of a compilation goes there: 10 to 15 ms a kernel, where the older
one takes 4 to 6.  What they make computes the same values, in the same time (60 kinds of kernels
were compared; some are faster by the one, some by the other).  A hybrid program is many small
kernels between calls of the runtime, so it is compiled by the older one.  jaxlib 0.11 has only
the newer one.
"""

import jaxlib

_HAS_BOTH = tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 11)

#: For ``jax.jit``.
COMPILER_OPTIONS: dict[str, bool] | None = (
    {"xla_cpu_use_fusion_emitters": False} if _HAS_BOTH else None
)
