"""Quantum devices: what a PennyLane device means to the runtime."""

import functools
import importlib.metadata
from dataclasses import dataclass
from typing import Any

import pennylane as qml

from bellhop.errors import CompileError

# The plugin interface is C++: only versions that were tried are known to have its layout.
_TESTED_LIGHTNING = ("0.45",)


@dataclass(frozen=True)
class DeviceSpec:
    """A quantum device as the runtime opens it.

    Attributes:
        name: PennyLane's name of the device, for errors.
        library: shared object with the plugin.
        factory: name of the plugin in it.
        kwargs: options, written as the plugin parses them.
        qubits: how many qubits the circuit has.
        shots: how many shots; 0 is analytic.
    """

    name: str
    library: str
    factory: str
    kwargs: str
    qubits: int
    shots: int


def device_spec(device: Any, qubits: int) -> DeviceSpec:
    """Return what the runtime needs to open a PennyLane device.

    Raises:
        CompileError: for a device without the plugin interface, or of an untested version.
    """
    if not hasattr(device, "get_c_interface"):
        raise CompileError(
            f"the device '{device.name}' has no compiled plugin (get_c_interface), so it cannot "
            "run inside qjit. Use qml.device('lightning.qubit', wires=...)."
        )
    _check_version(device.name)
    factory, library = device.get_c_interface()
    kwargs = getattr(device, "device_kwargs", {})
    options = {key: value for key, value in kwargs.items() if value is not None}
    return DeviceSpec(device.name, str(library), factory, str(options), qubits, 0)


@functools.cache
def _check_version(name: str) -> None:
    if not name.startswith("lightning."):
        return
    version = importlib.metadata.version("pennylane-lightning")
    if not version.startswith(tuple(f"{tested}." for tested in _TESTED_LIGHTNING)):
        raise CompileError(
            f"pennylane-lightning {version} is not a version that bellhop was tested with "
            f"({', '.join(_TESTED_LIGHTNING)}), and its compiled interface may differ. Install "
            f"pennylane-lightning=={_TESTED_LIGHTNING[-1]}.*."
        )


@dataclass(frozen=True)
class GateSet:
    """Which operations a device applies itself."""

    operations: dict[str, Any]

    def applies(self, op: qml.operation.Operator, *, differentiated: bool) -> bool:
        """Tell whether the device applies ``op``, and differentiates it where asked to."""
        base, adjoint, controlled = split(op)
        properties = self.operations.get(base.name)
        if properties is None:
            return base.name in _PREPARATIONS and not adjoint and not controlled
        return (
            (properties.invertible or not adjoint)
            and (properties.controllable or not controlled)
            and (properties.differentiable or not differentiated)
        )


_PREPARATIONS = ("StatePrep", "BasisState")

# The plugin takes a gate's numbers alone, and this one also needs a dimension.
_NOT_THROUGH_PLUGIN = ("PCPhase",)


def gate_set(device: Any) -> GateSet:
    """Return the gates that the plugin of a device applies natively."""
    capabilities = device.capabilities
    return GateSet(
        {
            name: properties
            for name, properties in capabilities.operations.items()
            if name not in _NOT_THROUGH_PLUGIN and name not in _PYTHON_ONLY
        }
    )


# Listed by Lightning as supported when it runs from Python, where they become matrices.
_PYTHON_ONLY = (
    "BlockEncode",
    "DiagonalQubitUnitary",
    "ECR",
    "ISWAP",
    "OrbitalRotation",
    "QubitCarry",
    "QubitSum",
    "SISWAP",
    "SQISW",
    "MultiControlledX",
)


def split(op: qml.operation.Operator) -> tuple[qml.operation.Operator, bool, list[Any]]:
    """Take adjoints and controls off an operation.

    Returns:
        the operation inside, whether it is inverted, and pairs of control wire and value.
    """
    adjoint = False
    controls: list[Any] = []
    while True:
        if isinstance(op, qml.ops.op_math.Adjoint):
            adjoint = not adjoint
            op = op.base
        elif type(op) in _GENERIC_CONTROLLED:
            controls += zip(op.control_wires, op.control_values, strict=True)
            op = op.base
        else:
            return op, adjoint, controls


# Subclasses with names of their own, CNOT say, are gates of their own.
_GENERIC_CONTROLLED = (
    qml.ops.op_math.Controlled,
    qml.ops.op_math.ControlledOp,
    qml.MultiControlledX,
    qml.ControlledQubitUnitary,
)
