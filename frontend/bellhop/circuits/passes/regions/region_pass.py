"""Expand adjoint and controlled functions: in a circuit, and in decompositions of operations.

``qml.adjoint(f)`` and ``qml.ctrl(f, 1)`` are ``quantum_region`` equations, whose gates ``inverse``
and ``control`` change::

    quantum_region[body={ lambda ; y. let
        quantum_operations[RX] y              apply([adjoint(RZ(y))])
        quantum_operations[RZ] y      --->    apply([adjoint(RX(y))])
      in () }] x

In a decomposition, a loop or a conditional is a `ControlFlow` operation, which may be inside of
PennyLane's ``Adjoint`` and ``Controlled``.
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.base.types import Operand
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.regions.control import ControlPass
from bellhop.circuits.passes.regions.inverse import evaluate_gates


class RegionPass(CircuitPass):
    """Pass that expands ``qml.adjoint`` and ``qml.ctrl`` of functions.

    The next interpreter gets plain gates, loops and conditionals instead of ``quantum_region``
    equations.
    """

    @staticmethod
    def is_needed(closed: ClosedJaxpr) -> bool:
        """Return whether a jaxpr has adjoint or controlled functions."""
        return GateJaxpr(closed, ()).has_regions

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Apply the gates of an adjoint or controlled function to the next interpreter.

        The ``quantum_region`` equation has no results, so the list is empty.
        """
        gates, controls = GateJaxpr.from_region(eqn, operands)
        if controls is None:
            evaluated = evaluate_gates(gates.closed, gates.operands, self.where)
            evaluated.apply(self.target, backwards=True)
        else:
            # Regions in the controlled function are expanded before controls are added.
            controlled = RegionPass(ControlPass(self.target, *controls))
            controlled.interpret(gates.closed, *gates.operands)
        return []


def apply_control_flow(interpreter: Interpreter, op: Any) -> None:
    """Apply a loop or conditional that a decomposition contains as one operation.

    Args:
        interpreter: receives the gates, loops and conditionals.
        op: a `ControlFlow` operation, which may be inside of ``Adjoint`` and ``Controlled``.
    """
    base, (is_inverse, controls) = Modifiers.strip(op)
    gates, operands, kept = map(base.hyperparameters.get, ("gates", "operands", "kept"))
    evaluated = evaluate_gates(gates, operands, interpreter.where, kept)
    if controls:
        interpreter = ControlPass(interpreter, *map(list, zip(*controls, strict=True)))
    evaluated.apply(interpreter, backwards=is_inverse)
