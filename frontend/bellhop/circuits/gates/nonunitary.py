"""Handle ``QubitUnitary`` gates whose matrix may be not unitary.

A device that applies matrices also applies a non-unitary matrix, which changes the norm of the
state, as in PennyLane. But the adjoint method cannot invert such a gate, and a matrix must be
unitary if it is decomposed into rotations, or if samples are drawn. There a traced matrix that is
not unitary is replaced by NaN, so that the results are NaN and not wrong.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.wires import is_dynamic
from bellhop_mlir.dialects.gate import Gate


def may_change_norm(gates: Sequence[Gate], *, if_traced: bool) -> bool:
    """Return whether a ``QubitUnitary`` among the gates may change the state's norm.

    Args:
        gates: a sequence of gates.
        if_traced: the answer for a matrix that is traced.
    """
    return any(_may_change_norm(gate, if_traced) for gate in gates)


def _may_change_norm(gate: Gate, if_traced: bool) -> bool:
    """Return whether a gate is a ``QubitUnitary`` whose matrix may be not unitary."""
    if gate.name.partition("@")[0] != "QubitUnitary":
        return False
    if gate.slots[0] >= 0:
        return if_traced
    # The slots of a matrix are the slots of one array.
    matrix = np.asarray(gate.constants).view(complex).reshape((2 ** len(gate.wires),) * 2)
    return not np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-8)


def mask_nonunitary(op: qml.operation.Operator) -> qml.operation.Operator:
    """Replace a traced matrix by NaN when the program finds that it is not unitary.

    Args:
        op: a ``QubitUnitary`` or ``DiagonalQubitUnitary``; a static one is returned unchanged.
    """
    (value,) = op.data
    if not is_dynamic(value):
        return op
    if op.name == "DiagonalQubitUnitary":
        distance = jnp.abs(jnp.abs(value) - 1)
    else:
        product = jnp.matmul(value, jnp.conj(value).T, precision=jax.lax.Precision.HIGHEST)
        distance = jnp.abs(product - np.eye(len(product)))
    # The tolerance allows for accumulated rounding errors. The check itself has no derivative.
    allowed = 100 * jnp.finfo(distance.dtype).eps ** 0.5
    is_unitary = jax.lax.stop_gradient(jnp.max(distance)) <= allowed
    make: Any = type(op)
    with qml.QueuingManager.stop_recording():
        return make(jnp.where(is_unitary, value, jnp.nan), wires=op.wires)
