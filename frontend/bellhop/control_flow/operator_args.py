"""PennyLane operators as arguments of functions with gates."""

import sys

import jax

from bellhop.base.types import Args, Kwargs


def dequeue_arguments(args: Args, kwargs: Kwargs) -> None:
    """Remove operators in a call's arguments from PennyLane's active queue.

    The arguments are pytrees. Creating an operator queues it as a gate, but
    ``qml.adjoint(qml.evolve)(qml.X(0), 0.3)`` shall apply an evolution by ``X`` alone, and not the
    gate ``X`` before it.
    """
    # Operators exist only if PennyLane was imported.
    if "pennylane" not in sys.modules:
        return
    import pennylane as qml

    is_operator = lambda leaf: isinstance(leaf, qml.operation.Operator)
    for leaf in jax.tree.leaves((args, kwargs), is_leaf=is_operator):
        if is_operator(leaf):
            qml.QueuingManager.remove(leaf)
