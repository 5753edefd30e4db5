"""The state, and functions of the density matrix of some wires: itself, purities and entropies.

Of a circuit that goes through the outcomes of its measurements, the state is a mixture.  Its
density matrix is the sum of those of its runs, which no purity and no entropy is; these are
functions of that sum.
"""

from collections.abc import Sequence
from typing import Any

import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.measure.process import Process
from bellhop.circuits.measure.statistics import ExactValues, Make, Statistic
from bellhop.circuits.memory import check_state_fits


class OfState(Process):
    """A function of the state that PennyLane knows; of no mixture."""

    def _exact(self, asked: ExactValues) -> Make:
        take = asked.state(self._name)
        qubits = {wire: self._wires(wire) for wire in self.process.wires}
        process = self.process.map_wires(qubits)
        order = qml.wires.Wires(range(len(self._wires)))

        def value(state: Any) -> Any:
            return self._of(process, state, order)

        return lambda answers: Statistic(take(answers), value)

    def _of(self, process: qml.measurements.MeasurementProcess, state: Any, order: Any) -> Any:
        if state.ndim == 2:
            return process.process_density_matrix(state, order)
        return process.process_state(state, order)


class StateProcess(OfState):
    """The state itself."""

    is_of_amplitudes = True

    def _of(self, process: qml.measurements.MeasurementProcess, state: Any, order: Any) -> Any:
        return state if state.ndim == 2 else super()._of(process, state, order)

    def _null(self, shots: int | None) -> Any:
        return self._all_in_first(len(self._labels()))


class OfDensityMatrix(Process):
    """A function of the density matrix of its wires."""

    def _exact(self, asked: ExactValues) -> Make:
        qubits = list(map(self._wires, self.process.wires))
        check_state_fits(len(qubits), self._where, axes=2)
        take = asked.density_matrix(qubits, self._name)
        return lambda answers: Statistic(take(answers), self._of_matrix)

    def _of_matrix(self, matrix: Operand) -> Any:
        wires = self.process.wires
        with qml.QueuingManager.stop_recording():
            process = self.process.map_wires(dict(zip(wires, range(len(wires)), strict=True)))
            return process.process_density_matrix(matrix, qml.wires.Wires(range(len(wires))))


class DensityMatrix(OfDensityMatrix):
    """The density matrix itself."""

    is_of_amplitudes = True

    def _of_matrix(self, matrix: Operand) -> Any:
        return matrix


def by_outcome(state: Any, qubits: Sequence[int], n: int) -> Any:
    """Return the amplitudes of a state of ``n`` qubits, a row for each outcome of some of them."""
    others = [qubit for qubit in range(n) if qubit not in qubits]
    by_qubit = state.reshape((2,) * n).transpose(*qubits, *others)
    return by_qubit.reshape(2 ** len(qubits), -1)
