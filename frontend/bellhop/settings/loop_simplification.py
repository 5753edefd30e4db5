"""Compilation without the pass of XLA that simplifies loops, for programs that it breaks.

The pass ``simplify-while-loops`` has two faults:

- It removes loops whose condition is false at first, such as ``fori_loop(0, 0 * n, body, x)``. If
  the body contains another loop, as the function of a circuit with mid-circuit outcomes does, the
  pass may read a computation that it has freed, and the process ends (seen in jaxlib 0.10.2).
- Before jaxlib 0.12, it miscounts the iterations of loops with constant bounds whose counter grows
  by more than one: ``while_loop(lambda i: i < 1, lambda i: i + 2, 0)`` does not run its body, which
  should run once. ``jax.jit`` returns wrong numbers for such loops.

The pass saves little where loops execute circuits, or have such counters.
"""

from jaxlib.version import __version_info__

#: Whether XLA miscounts loops whose counter grows by more than one.
MISCOUNTS_LONG_STEPS = __version_info__ < (0, 12)

#: XLA's option to leave out the pass.
WITHOUT_SIMPLIFICATION = {"xla_disable_hlo_passes": "simplify-while-loops"}
