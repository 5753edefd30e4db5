"""Operations whose parts depend on the value of a number, which the program computes.

``qml.pow(qml.S(0), z)`` asks ``z`` for its value when it is decomposed; the error names that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import pennylane as qml

from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

# What JAX raises where PennyLane asks a gate for the value of a number.
CONCRETIZATION_ERRORS = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


@contextmanager
def explain_concretization(op: qml.operation.Operator, where: str) -> Iterator[None]:
    """Name an operation in the error of what asks inside for the value of a number."""
    try:
        yield
    except CONCRETIZATION_ERRORS as error:
        power = _find_traced_power(op)
        if power is not None:
            raise CompileError(
                f"{where}: qml.pow raises {power.base.name} to a power that the program computes, "
                "and the gate has parameters that the program computes, too many wires, or no "
                "unitary matrix. Make the power static, qjit(static_argnums=...), multiply the "
                "angle of a rotation, qml.RX(z * x, wires), or apply the gate in a for_loop."
            ) from error
        raise CompileError(
            f"{where}: what {type(op).__name__} consists of depends on the value of a number that "
            "the program computes. Make it static: qjit(static_argnums=...); or write gates "
            "instead."
        ) from error


def _find_traced_power(op: qml.operation.Operator) -> qml.ops.Pow | None:
    """Return the operator of which an operation is made, if that is a power by a traced number."""
    while isinstance(op, qml.ops.SymbolicOp):
        if isinstance(op, qml.ops.Pow) and is_dynamic(op.z):
            return op
        op = op.base
    return None
