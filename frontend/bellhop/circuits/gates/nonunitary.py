"""Matrices that need not be unitary.

Where the device applies a matrix as it is, the state has another norm afterwards, as in PennyLane.
But there is no way back through such a gate, for the adjoint method; and where a matrix becomes
angles, or samples are drawn, it must be unitary. One that the program computes is all NaN there if
it is not, so that nothing comes out that is wrong.
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
    """Tell whether there is a gate whose matrix need not be unitary.

    Args:
        gates: a run of them.
        if_traced: whether that is so of matrices that the program computes.
    """
    return any(_may_change_norm(gate, if_traced) for gate in gates)


def _may_change_norm(gate: Gate, if_traced: bool) -> bool:
    if gate.name.partition("@")[0] != "QubitUnitary":
        return False
    if gate.slots[0] >= 0:
        return if_traced
    # The slots of a matrix are those of one array.
    matrix = np.asarray(gate.constants).view(complex).reshape((2 ** len(gate.wires),) * 2)
    return not np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-8)


def mask_nonunitary(op: qml.operation.Operator) -> qml.operation.Operator:
    """Return a matrix or diagonal, with NaN in it if it is computed and not unitary."""
    (value,) = op.data
    if not is_dynamic(value):
        return op
    if op.name == "DiagonalQubitUnitary":
        distance = jnp.abs(jnp.abs(value) - 1)
    else:
        product = jnp.matmul(value, jnp.conj(value).T, precision=jax.lax.Precision.HIGHEST)
        distance = jnp.abs(product - np.eye(len(product)))
    # A sum has the errors of all rounding; a derivative goes through the matrix alone.
    allowed = 100 * jnp.finfo(distance.dtype).eps ** 0.5
    is_unitary = jax.lax.stop_gradient(jnp.max(distance)) <= allowed
    make: Any = type(op)
    with qml.QueuingManager.stop_recording():
        return make(jnp.where(is_unitary, value, jnp.nan), wires=op.wires)
