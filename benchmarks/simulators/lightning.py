"""PennyLane's lightning.qubit without any compiler: tapes that are executed and differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gates import apply, observable
from benchmarks.simulators import Model


class Simulator:
    """Runs a model; gradients are Lightning's adjoint method, the rows of a batch one call."""

    def __init__(self, model: Model) -> None:
        """Make the device and the observable."""
        import pennylane as qml

        self._model = model
        self._device = qml.device("lightning.qubit", wires=model.wires)
        self._config = qml.devices.ExecutionConfig(
            gradient_method="adjoint", use_device_gradient=True
        )
        self._observable = observable(model.terms)

    def _tape(self, angles: np.ndarray) -> Any:
        import pennylane as qml

        with qml.queuing.AnnotatedQueue() as queue:
            apply(self._model.gates, angles)
            qml.expval(self._observable)
        tape = qml.tape.QuantumScript.from_queue(queue)
        tape.trainable_params = range(len(angles))  # and not the coefficients
        return tape

    def value(self, angles: np.ndarray) -> Any:
        """Execute one tape."""
        return self._device.execute((self._tape(angles),), self._config)[0]

    def value_and_gradient(self, angles: np.ndarray) -> tuple[Any, np.ndarray]:
        """Execute and differentiate one tape."""
        values, gradients = self.batch(angles[None])
        return values[0], gradients[0]

    def batch(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Execute and differentiate a tape for each row."""
        values, gradients = self._device.execute_and_compute_derivatives(
            tuple(map(self._tape, angles)), self._config
        )
        return np.array(values), np.array(gradients)
