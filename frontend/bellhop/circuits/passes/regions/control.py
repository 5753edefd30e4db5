"""``ControlPass``: add controls to all operations of a circuit.

For a control on wire 2::

    quantum_operations[RX] x                     apply([ctrl(RX(x), 2)])
    _ = quantum_for_loop[length=3        --->    for_loop(3, body)
        body={ quantum_operations[RY] y }]       body: apply([ctrl(RY(y), 2)])
"""

from collections.abc import Sequence
from typing import Any

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass


class ControlPass(CircuitPass):
    """Pass that adds controls to each operation.

    ``RX(x, 0)`` becomes ``ctrl(RX(x, 0), wires)``. This implements ``qml.ctrl`` of a function.
    Loops and conditionals stay as they are: a controlled loop is a loop of controlled gates.

    Args:
        target: the next interpreter, which gets the controlled operations.
        wires: the labels of the control wires.
        values: the control value of each wire, 0 or 1.
    """

    def __init__(self, target: Interpreter, wires: Any, values: Any) -> None:
        super().__init__(target)
        controls = list(zip(wires, values, strict=True))
        self._modifiers = Modifiers(adjoint=False, controls=controls)

    def apply(self, operations: Sequence[Any]) -> None:
        """Add this pass's controls to operations, and pass the controlled operations on.

        Each controlled operation keeps the user's line of the original operation.
        """
        controlled = []
        for op in operations:
            controlled.append(self._modifiers.apply(op))
            self.record_site(controlled[-1], self.find_site(op))
        self.target.apply(controlled)
