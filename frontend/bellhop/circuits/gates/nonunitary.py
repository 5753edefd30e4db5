"""Find ``QubitUnitary`` gates whose matrix may be not unitary.

The adjoint method cannot invert such a gate.
"""

from collections.abc import Sequence

import numpy as np

from bellhop_mlir.dialects.gate import Gate


def may_change_norm(gates: Sequence[Gate], *, if_traced: bool) -> bool:
    """Return whether a ``QubitUnitary`` among gates may have a matrix that is not unitary.

    Such a gate changes the norm of the state.

    Args:
        gates: recorded gates of a circuit, each with its constants.
        if_traced: the result if a matrix is traced, so that its values are unknown.
    """
    return any(_may_change_norm(gate, if_traced) for gate in gates)


def _may_change_norm(gate: Gate, if_traced: bool) -> bool:
    """Return whether a gate is a ``QubitUnitary`` whose matrix may not be unitary.

    Args:
        gate: a recorded gate.
        if_traced: the result if the matrix is traced, so that its values are unknown.
    """
    if gate.name.partition("@")[0] != "QubitUnitary":
        return False
    if gate.slots[0] >= 0:
        return if_traced
    # The slots of a matrix are the slots of one array.
    matrix = np.asarray(gate.constants).view(complex).reshape((2 ** len(gate.wires),) * 2)
    return not np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-8)
