"""Operators that a quantum function is given as arguments."""

import sys

import jax

from bellhop.base.types import Args, Kwargs


def dequeue_arguments(args: Args, kwargs: Kwargs) -> None:
    """Take operators among arguments out of the queue: making them applied them as gates.

    ``qml.adjoint(qml.evolve)(qml.X(0), 0.3)`` applies an evolution by ``X``, and no ``X``.
    """
    # No operator was made without it.
    if "pennylane" not in sys.modules:
        return
    import pennylane as qml

    is_operator = lambda leaf: isinstance(leaf, qml.operation.Operator)
    for leaf in jax.tree.leaves((args, kwargs), is_leaf=is_operator):
        if is_operator(leaf):
            qml.QueuingManager.remove(leaf)
