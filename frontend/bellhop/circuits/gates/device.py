"""Quantum devices: what a PennyLane device means to the runtime."""

import functools
import importlib.metadata
from dataclasses import dataclass
from typing import Any

import numpy as np
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
        passes: which passes the compiler runs over the circuit, in order.
        engine: whether the runtime's own engine may run circuits of it.
    """

    name: str
    library: str
    factory: str
    kwargs: str
    qubits: int
    shots: int
    passes: tuple[str, ...] = ()
    engine: bool = True

    @property
    def has_engine(self) -> bool:
        """Whether the runtime's own engine runs circuits of this device."""
        return self.engine and self.name.startswith("lightning.")


def device_spec(device: Any, qubits: int) -> DeviceSpec:
    """Return what the runtime needs to open a PennyLane device that is a compiled plugin.

    Raises:
        CompileError: for a plugin of an untested version.
    """
    check_version(device.name)
    factory, library = device.get_c_interface()
    kwargs = getattr(device, "device_kwargs", {})
    options = {key: value for key, value in kwargs.items() if value is not None}
    return DeviceSpec(device.name, str(library), factory, str(options), qubits, 0)


@functools.cache
def check_version(name: str) -> None:
    """Refuse a device whose plugin is of an untested version."""
    if not name.startswith("lightning."):
        return
    package = _lightning_package(name)
    version = importlib.metadata.version(package)
    if not version.startswith(tuple(f"{tested}." for tested in _TESTED_LIGHTNING)):
        raise CompileError(
            f"{package} {version} is not a version that bellhop was tested with "
            f"({', '.join(_TESTED_LIGHTNING)}), and its compiled interface may differ. Install "
            f"{package}=={_TESTED_LIGHTNING[-1]}.*."
        )


def _lightning_package(name: str) -> str:
    """Return the distribution with a Lightning device; each but lightning.qubit has its own."""
    package = f"pennylane-lightning-{name.partition('.')[2]}"
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return "pennylane-lightning"
    return package


def check_options(device: Any, where: str) -> None:
    """Refuse options of a Lightning device that its compiled interface does not take.

    Raises:
        CompileError: names the QNode, the option, and what to do.
    """
    if not device.name.startswith("lightning."):
        return
    kokkos_args = getattr(device, "_sv_init_kwargs", {}).get("kokkos_args")
    for is_set, option, instead in (
        (
            device.c_dtype != np.complex128,
            "c_dtype=complex64",
            "Leave it out: compiled circuits have complex128 states.",
        ),
        (getattr(device, "_mpi", False), "mpi=True", "Call the QNode uncompiled."),
        (
            kokkos_args is not None,
            "kokkos_args",
            "Set the environment variable KOKKOS_NUM_THREADS instead.",
        ),
    ):
        if is_set:
            raise CompileError(
                f"{where}: the option {option} of {device.name} does not reach compiled "
                f"circuits. {instead}"
            )


# State preparations go through functions of the plugin's own and are in no list.
_PREPARATIONS = ("StatePrep", "BasisState")

# The plugin takes a gate's numbers alone, and this one also needs a dimension.
_NOT_THROUGH_PLUGIN = ("PCPhase",)

# Listed by Lightning as supported when it runs from Python, where they become matrices.
_PYTHON_ONLY = (
    "BlockEncode",
    "ControlledQubitUnitary",
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

# Listed as differentiable, and pennylane-lightning 0.45 computes a wrong derivative.
_WRONG_DERIVATIVE = ("PSWAP",)


class GateSet:
    """Which operations a device applies itself."""

    def __init__(self, device: Any) -> None:
        self._properties = {
            name: properties
            for name, properties in device.capabilities.operations.items()
            if name not in _NOT_THROUGH_PLUGIN and name not in _PYTHON_ONLY
        }

    def __contains__(self, name: str) -> bool:
        return name in self._properties

    def applies(self, name: str, *, adjoint: bool = False, controlled: bool = False) -> bool:
        """Tell whether the device applies an operation, inverted and controlled as given."""
        properties = self._properties.get(name)
        if properties is None:
            return name in _PREPARATIONS and not adjoint and not controlled
        return (properties.invertible or not adjoint) and (
            properties.controllable or not controlled
        )

    def differentiates(self, name: str) -> bool:
        """Tell whether the adjoint method of the device differentiates an operation."""
        properties = self._properties.get(name)
        return (
            properties is not None and properties.differentiable and name not in _WRONG_DERIVATIVE
        )


def split(
    op: qml.operation.Operator, gates: GateSet
) -> tuple[qml.operation.Operator, bool, list[tuple[Any, Any]]]:
    """Take adjoints and controls off an operation, as far as the device wants it.

    Named gates with controls, CNOT say, stay what they are if the device knows them.

    Returns:
        the operation inside, whether it is inverted, and pairs of control wire and value.
    """
    adjoint = False
    controls: list[tuple[Any, Any]] = []
    while True:
        if isinstance(op, qml.ops.Adjoint):
            adjoint = not adjoint
            op = op.base
        elif isinstance(op, qml.ops.Controlled) and (controls or op.name not in gates):
            controls += zip(op.control_wires, op.control_values, strict=True)
            op = op.base
        else:
            return op, adjoint, controls
