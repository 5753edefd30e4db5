"""Compilation without the pass of XLA that simplifies loops, for programs on which it crashes.

The pass ``simplify-while-loops`` removes loops whose condition is false at first, such as
``fori_loop(0, 0 * n, body, x)``. If the body contains another loop, as the function of a circuit
with mid-circuit outcomes does, the pass may read a computation that it has freed, and the process
ends (seen in jaxlib 0.10.2). The pass saves little where loops execute circuits.
"""

#: XLA's option to leave out the pass.
WITHOUT_SIMPLIFICATION = {"xla_disable_hlo_passes": "simplify-while-loops"}
