"""Control flow on a tape of the user's, which becomes part of the circuit with the tape.

A decomposition is a list of operations, and what stands in a ``QuantumTape`` in it is collected
by that.  So a loop or conditional there is an operation until the circuit applies it.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

# Applies control flow to a circuit.
Play = Callable[[Any], Any]


class ControlFlow(qml.operation.Operation):
    """A loop or conditional, as an operation."""

    num_params = 0

    def __init__(self, play: Play, wires: Any) -> None:
        self._hyperparameters = {"play": play}
        super().__init__(wires=wires)


def is_control_flow(op: Any) -> bool:
    """Tell whether an operation is control flow, inverted and controlled as it may be."""
    while isinstance(op, (qml.ops.Adjoint, qml.ops.Controlled)):
        op = op.base
    return isinstance(op, ControlFlow)
