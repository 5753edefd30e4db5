"""``interpret_with_passes``: run a circuit through the passes that it needs.

For a circuit with an adjoint of a function, on a QNode with ``qml.transforms.merge_rotations``, the
chain of interpreters is ::

    RegionPass  ->  RewritePass  ->  circuit of the backend
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.fold import append_folds
from bellhop.circuits.passes.regions import RegionPass
from bellhop.circuits.passes.rewrite import Rewrite, add_rewrite


def interpret_with_passes(
    interpreter: Interpreter,
    closed: ClosedJaxpr,
    inputs: Sequence[Any],
    *,
    n_folds: int = 0,
    rewrite: Rewrite | None = None,
) -> list[Any]:
    """Interpret a circuit: expand adjoints and controls, fold, and rewrite operations.

    Each pass is left out where it has nothing to do.

    Args:
        interpreter: gets the plain gates: a backend's circuit, or a pass before it.
        closed: the circuit, a jaxpr with gates.
        inputs: the inputs of the jaxpr.
        n_folds: the number of global foldings.
        rewrite: replaces operations after all are expanded and folded; None to keep them.

    Returns:
        the results of the jaxpr.
    """
    interpreter = add_rewrite(interpreter, rewrite)
    expanding = RegionPass(interpreter) if RegionPass.is_needed(closed) else interpreter
    results = expanding.interpret(closed, *inputs)
    append_folds(interpreter, closed, inputs, n_folds)
    return results
