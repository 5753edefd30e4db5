"""What ``qml.*`` means inside compiled programs; PennyLane looks these names up here.

PennyLane knows the module as the entry point ``bellhop.ops``.
"""

from typing import Any

from bellhop.control_flow.cond import cond
from bellhop.control_flow.for_loop import for_loop
from bellhop.control_flow.while_loop import while_loop
from bellhop.derivatives import grad, jacobian, value_and_grad
from bellhop.mapping import vmap
from bellhop.measure import measure
from bellhop.products import jvp, vjp

__all__ = [
    "adjoint",
    "cond",
    "ctrl",
    "for_loop",
    "grad",
    "jacobian",
    "jvp",
    "measure",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


def adjoint(fn: Any, lazy: bool = True) -> Any:
    """Return the inverse of an operation, or of a function that applies some."""
    from pennylane.ops.op_math.adjoint import create_adjoint_op

    return create_adjoint_op(fn, lazy)


def ctrl(
    op: Any,
    control: Any,
    control_values: Any = None,
    work_wires: Any = None,
    work_wire_type: str = "borrowed",
) -> Any:
    """Return an operation, or a function that applies some, with controls."""
    from pennylane.ops.op_math.controlled import create_controlled_op

    return create_controlled_op(
        op,
        control,
        control_values=control_values,
        work_wires=work_wires,
        work_wire_type=work_wire_type,
    )
