"""Control flow on a tape of the user's, which becomes part of the circuit with the tape.

A decomposition is a list of operations, and what stands in a ``QuantumTape`` in it is collected
by that.  So a loop or conditional there is an operation until the circuit applies it.
"""

from collections.abc import Sequence
from typing import Any

import pennylane as qml
from jax.extend.core import ClosedJaxpr


class ControlFlow(qml.operation.Operation):
    """A loop or conditional, as an operation.

    Args:
        gates: its jaxpr.
        operands: the inputs of that.
        kept: what was kept of its values, which have been computed.
        wires: those that it acts on.
    """

    num_params = 0

    def __init__(
        self, gates: ClosedJaxpr, operands: Sequence[Any], kept: Sequence[Any], wires: Any
    ) -> None:
        self._hyperparameters = {"gates": gates, "operands": list(operands), "kept": list(kept)}
        super().__init__(wires=wires)


def is_control_flow(op: qml.operation.Operator) -> bool:
    """Tell whether an operation is control flow, inverted and controlled as it may be."""
    while isinstance(op, (qml.ops.Adjoint, qml.ops.Controlled)):
        op = op.base
    return isinstance(op, ControlFlow)
