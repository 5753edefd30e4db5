"""Control flow as an operation, for tapes that become part of a circuit.

A decomposition is a list of operations, and a ``QuantumTape`` in it collects the operations created
inside.  So a loop or conditional in such a tape is an operation until the circuit applies it.
"""

from collections.abc import Sequence
from typing import Any

import pennylane as qml
from jax.extend.core import ClosedJaxpr


class ControlFlow(qml.operation.Operation):
    """A loop or conditional, represented as an operation on PennyLane's queue or a tape.

    It is created for control flow inside a ``QuantumTape``, such as a decomposition's, and exists
    until the circuit applies it.

    Args:
        gates: the jaxpr of the loop or conditional.
        operands: the inputs of the jaxpr, which may be traced.
        kept: values that were saved when the jaxpr was first evaluated, so that its callbacks are
            not called again; see ``EvaluatedGates.saved``.
        wires: the wires that the jaxpr's gates act on.
    """

    num_params = 0

    def __init__(
        self, gates: ClosedJaxpr, operands: Sequence[Any], kept: Sequence[Any], wires: Any
    ) -> None:
        self._hyperparameters = {"gates": gates, "operands": list(operands), "kept": list(kept)}
        super().__init__(wires=wires)

    @staticmethod
    def is_instance(op: qml.operation.Operator) -> bool:
        """Return whether an operation is a `ControlFlow`, ignoring adjoints and controls."""
        while isinstance(op, (qml.ops.Adjoint, qml.ops.Controlled)):
            op = op.base
        return isinstance(op, ControlFlow)
