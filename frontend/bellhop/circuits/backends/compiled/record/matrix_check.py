"""Replace matrices of gates by NaN if they are not unitary.

A device that applies matrices also applies a non-unitary matrix, which changes the norm of the
state, as in PennyLane. But the adjoint method cannot invert such a gate, and a matrix must be
unitary if it is decomposed into rotations, or if samples are drawn. There a traced matrix that is
not unitary is replaced by NaN, so that the results are NaN and not wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.wires import is_dynamic

if TYPE_CHECKING:
    import pennylane as qml


def mask_nonunitary(op: qml.operation.Operator) -> qml.operation.Operator:
    """Replace a traced matrix by NaN at run time if it is not unitary.

    Args:
        op: a ``QubitUnitary`` or ``DiagonalQubitUnitary``. With a static matrix it is returned
            unchanged.

    Returns:
        an operation on the same wires. Its matrix is NaN if the program finds it not unitary.
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
    return make(jnp.where(is_unitary, value, jnp.nan), wires=op.wires)
