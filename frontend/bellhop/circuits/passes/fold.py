"""Fold a circuit as a whole, which scales its noise.

With ``n_folds=1``, a jaxpr with gates is applied forward, backwards and forward again::

    quantum_operations[StatePrep] s        apply([StatePrep(s)])
    quantum_operations[RX] x        --->   apply([RX(x)])
    quantum_operations[RY] y               apply([RY(y)])
                                           apply([adjoint(RY(y))])
                                           apply([adjoint(RX(x))])
                                           apply([RX(x)])
                                           apply([RY(y)])
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.regions.inverse import evaluate_gates
from bellhop.circuits.passes.regions.region_pass import RegionPass


def append_folds(
    interpreter: Interpreter, closed: ClosedJaxpr, inputs: Sequence[Any], n_folds: int
) -> None:
    """Apply the inverse of a circuit and the circuit again, ``n_folds`` times.

    The interpreter has received the circuit once already, so the noise of the circuit is scaled by
    ``1 + 2 * n_folds``, for zero-noise extrapolation. Preparations of states are not repeated.
    Callbacks with effects are called again each time.

    Args:
        interpreter: receives the gates.
        closed: the circuit, a jaxpr with gate equations.
        inputs: the values of the jaxpr's inputs.
        n_folds: the number of times that inverse and circuit are applied.
    """
    again = _NoPreparations(interpreter)
    for _ in range(n_folds):
        evaluate_gates(closed, inputs, interpreter.where).apply(again, backwards=True)
        RegionPass(again).interpret(closed, *inputs)


class _NoPreparations(CircuitPass):
    """Pass that drops preparations of states and passes all other constructs on."""

    def apply(self, operations: Sequence[Any]) -> None:
        kind = lambda op: OperationKind.classify(Modifiers.strip(op)[0])
        kept = [op for op in operations if not kind(op).is_preparation]
        if kept:
            self.target.apply(kept)
