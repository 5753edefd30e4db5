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
    """Adds controls to operations: ``RX(x, 0)`` becomes ``ctrl(RX(x, 0), wires)``.

    Loops and conditionals stay, since gates that are controlled one by one are a controlled loop.

    Args:
        target: the interpreter that gets the controlled operations.
        wires: the control wires.
        values: the control values, one per wire.
    """

    def __init__(self, target: Interpreter, wires: Any, values: Any) -> None:
        super().__init__(target)
        controls = list(zip(wires, values, strict=True))
        self._modifiers = Modifiers(adjoint=False, controls=controls)

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations with controls."""
        controlled = []
        for op in operations:
            controlled.append(self._modifiers.apply(op))
            self.record_site(controlled[-1], self.find_site(op))
        self.target.apply(controlled)
