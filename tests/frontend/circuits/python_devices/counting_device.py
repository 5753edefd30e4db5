"""Devices written in Python, which note what they are asked for."""

import dataclasses

import numpy as np
import pennylane as qml
from pennylane.devices import Device


class CalledMixed(qml.devices.DefaultMixed):
    """default.mixed as a plugin of its own, which the program calls: it might do otherwise."""


class CountingDevice(Device):
    """reference.qubit, with the number of tapes of each execution."""

    def __init__(self, wires=None):
        super().__init__(wires=wires)
        self._simulator = qml.device("reference.qubit", wires=wires, seed=5)
        self.batches = []

    @property
    def name(self):
        return "counting"

    def preprocess_transforms(self, execution_config=None):
        return self._simulator.preprocess_transforms(execution_config)

    def execute(self, circuits, execution_config=None):
        self.batches.append(len(circuits))
        return self._simulator.execute(circuits, execution_config)


class DifferentiatingDevice(CountingDevice):
    """Has a derivative of its own, which is exact for rotations: of expectation values."""

    def __init__(self, wires=None):
        super().__init__(wires)
        self.differentiated = []

    @property
    def name(self):
        return "differentiating"

    def supports_derivatives(self, execution_config=None, circuit=None):
        method = execution_config.gradient_method if execution_config else "device"
        return method in ("device", "best") and not (circuit and circuit.shots)

    def setup_execution_config(self, config=None, circuit=None):
        config = config or qml.devices.ExecutionConfig()
        if config.gradient_method == "best":
            config = dataclasses.replace(config, gradient_method="device")
        if config.gradient_method == "device":
            config = dataclasses.replace(config, use_device_gradient=True, grad_on_execution=False)
        return config

    def compute_derivatives(self, circuits, execution_config=None):
        self.differentiated.append(len(circuits))
        jacobians = []
        for circuit in circuits:
            tapes, finish = qml.gradients.param_shift(circuit)
            jacobians.append(finish(self._simulator.execute(tapes)))
        return tuple(jacobians)

    def execute_and_compute_derivatives(self, circuits, execution_config=None):
        return self.execute(circuits), self.compute_derivatives(circuits)


def as_numpy(tree):
    """Return a result of an uncompiled QNode with NumPy's arrays."""
    if isinstance(tree, dict):
        return {name: as_numpy(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(map(as_numpy, tree))
    return np.asarray(tree)
