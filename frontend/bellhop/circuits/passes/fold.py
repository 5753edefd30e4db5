"""Fold a circuit as a whole: the circuit ``U`` becomes ``U (U^-1 U)^n``, which scales its noise."""

from collections.abc import Sequence
from typing import Any

import pennylane as qml
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.inverse import evaluate_gates
from bellhop.circuits.passes.regions import RegionPass


def append_folds(
    interpreter: Interpreter, closed: ClosedJaxpr, inputs: Sequence[Any], n_folds: int
) -> None:
    """Apply a circuit's inverse and the circuit again, ``n_folds`` times.

    State preparations are not repeated.

    Args:
        interpreter: gets the gates; the circuit was applied once already.
        closed: the circuit, a jaxpr with gates.
        inputs: the inputs of the jaxpr.
        n_folds: the number of repetitions.
    """
    again = _NoPreparations(interpreter)
    for _ in range(n_folds):
        evaluate_gates(closed, inputs, interpreter.where).apply(again, backwards=True)
        RegionPass(again).interpret(closed, *inputs)


class _NoPreparations(CircuitPass):
    """Drops state preparations."""

    def apply(self, operations: Sequence[Any]) -> None:
        kept = [op for op in operations if not _is_preparation(op)]
        if kept:
            self.target.apply(kept)


def _is_preparation(op: qml.operation.Operator) -> bool:
    """Return whether an operation prepares a state, also inside of adjoints and controls."""
    base, _ = Modifiers.strip(op)
    return isinstance(base, qml.operation.StatePrepBase)
