"""``RewritePass``: replace the operations of a circuit, piece by piece.

With ``qml.transforms.merge_rotations``, whose pieces are the operations between two constructs::

    quantum_operations[RX RX] x y                apply([RX(x + y)])
    _ = quantum_for_loop[length=3        --->    for_loop(3, body)
        body={ quantum_operations[RX] z }]       body: apply([RX(z)])
"""

from collections.abc import Callable, Sequence
from typing import Any

from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass

# Maps the operations of a piece of a circuit to the operations that replace them.
Rewrite = Callable[[Sequence[Any]], Sequence[Any]]


class RewritePass(CircuitPass):
    """Pass that replaces operations, for transforms, gate folding and twirling.

    Loops, conditionals and mid-circuit measurements are passed on unchanged, so the function sees
    the operations between two of these constructs at a time.

    Args:
        target: the next interpreter, which gets the new operations.
        rewrite: maps a list of operations to the operations that replace them.
    """

    def __init__(self, target: Interpreter, rewrite: Rewrite) -> None:
        super().__init__(target)
        self._rewrite = rewrite

    def apply(self, operations: Sequence[Any]) -> None:
        """Forward the operations that replace ``operations`` to the next interpreter."""
        self.target.apply(self._rewrite(operations))


def add_rewrite(interpreter: Interpreter, rewrite: Rewrite | None) -> Interpreter:
    """Put a `RewritePass` before an interpreter, and return the pass.

    If ``rewrite`` is None, return the interpreter itself.
    """
    return interpreter if rewrite is None else RewritePass(interpreter, rewrite)
