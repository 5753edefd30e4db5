"""Explain JAX's errors about traced values in the decompositions of operations.

The decomposition of ``qml.pow(qml.S(0), z)`` depends on the value of ``z``.  If ``z`` is traced,
JAX raises an error, and `explain_concretization` raises one that names the operation instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax

from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml

# JAX's errors where PennyLane reads the value of a traced parameter.
CONCRETIZATION_ERRORS = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


@contextmanager
def explain_concretization(op: qml.operation.Operator, where: str) -> Iterator[None]:
    """Replace JAX's concretization error in a ``with`` block by an error that names an operation.

    Args:
        op: the operation that the ``with`` block decomposes.
        where: the QNode's name and line, for error messages.

    Raises:
        CompileError: if the ``with`` block needs the value of a tracer.
    """
    try:
        yield
    except CONCRETIZATION_ERRORS as error:
        power = _find_traced_power(op)
        if power is not None:
            raise CompileError(
                f"{where}: qml.pow raises {power.base.name} to a traced power, expected a unitary "
                "gate with static parameters and few wires. Make the power static: "
                "qjit(static_argnums=...); multiply the angle of a rotation: qml.RX(z * x, "
                "wires); or repeat the gate in a for_loop."
            ) from error
        raise CompileError(
            f"{where}: the decomposition of {type(op).__name__} depends on a traced value. Make "
            "the value static: qjit(static_argnums=...); or write gates instead."
        ) from error


def _find_traced_power(op: Any) -> Any:
    """Return the outermost power with a traced exponent inside an operation, or None.

    Adjoints, controls and other powers around the power are skipped.

    Args:
        op: PennyLane operation.
    """
    # Symbolic operations have a base, and only powers have an exponent ``z``.
    while hasattr(op, "base"):
        if is_dynamic(getattr(op, "z", None)):
            return op
        op = op.base
    return None
