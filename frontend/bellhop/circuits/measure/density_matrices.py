"""Functions of the density matrix of some wires: the matrix itself, purities and entropies.

Of a circuit that goes through the outcomes of its measurements, the state is a mixture.  Its
density matrix is the sum of those of its runs, which no purity and no entropy is; these are
functions of that sum.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.memory import check_state_fits

mp = qml.measurements

_OF_DENSITY_MATRIX = (mp.DensityMatrixMP, mp.PurityMP, mp.VnEntropyMP, mp.MutualInfoMP)


def is_of_density_matrix(process: Any) -> bool:
    """Tell whether a measurement process is a function of the density matrix of its wires."""
    return isinstance(process, _OF_DENSITY_MATRIX)


def of_density_matrix(
    process: Any, wires: WireMap, where: str
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return a measurement in two steps, the first of which may be summed over runs.

    Args:
        process: PennyLane's measurement process.
        wires: of the circuit.
        where: the QNode and its line, for errors.

    Returns:
        what makes the density matrix of its wires from a state, and what makes its result from
        that.

    Raises:
        CompileError: where the matrix does not fit into memory, or a wire is not known.
    """
    qubits = list(map(wires, process.wires))
    check_state_fits(len(qubits), where, axes=2)
    with qml.QueuingManager.stop_recording():
        places = dict(zip(process.wires, range(len(qubits)), strict=True))
        measured = process.map_wires(places)

    def reduced(state: Any) -> Any:
        others = [qubit for qubit in range(len(wires)) if qubit not in qubits]
        by_qubit = state.reshape((2,) * len(wires)).transpose(*qubits, *others)
        rows = by_qubit.reshape(2 ** len(qubits), -1)
        return rows @ jnp.conj(rows).T

    def result(matrix: Any) -> Any:
        if isinstance(measured, mp.DensityMatrixMP):
            return matrix
        return measured.process_density_matrix(matrix, qml.wires.Wires(range(len(qubits))))

    return reduced, result
