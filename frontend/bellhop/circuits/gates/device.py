"""Quantum devices: what a PennyLane device means to the runtime."""

import functools
import importlib.metadata
from dataclasses import dataclass

import numpy as np
import pennylane as qml

from bellhop._versions import SUPPORTED, is_supported
from bellhop.circuits.precision import is_double
from bellhop.errors import CompileError
from bellhop.tracing.state import current_options

# Whose circuits the engine has, however many qubits they have.
_DEVICES_OF_ANY_SIZE = ("lightning.qubit", "lightning.kokkos")


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
        passes: which passes simplify its gates (``bellhop.passes``), in order.
        engine: whether the runtime's own engine may run circuits of it.
        precision: the bits of a real number in states of the engine, 32 or 64.
    """

    name: str
    library: str
    factory: str
    kwargs: str
    qubits: int
    shots: int
    passes: tuple[str, ...] = ()
    engine: bool = False
    precision: int = 64

    @property
    def has_engine_of_any_size(self) -> bool:
        """Whether the engine runs its circuits, however many qubits they have."""
        return self.engine and self.name in (*_DEVICES_OF_ANY_SIZE, "default.qubit")


def device_spec(device: qml.devices.Device, qubits: int) -> DeviceSpec:
    """Return what the runtime needs to open a PennyLane device that is a compiled plugin.

    Raises:
        CompileError: for a plugin of an untested version.
    """
    check_version(device.name)
    factory, library = device.get_c_interface()
    kwargs = getattr(device, "device_kwargs", {})
    options = {key: value for key, value in kwargs.items() if value is not None}
    return DeviceSpec(
        device.name,
        str(library),
        factory,
        str(options),
        qubits,
        shots=0,
        engine=device.name.startswith("lightning."),
        precision=bits_of_states(device),
    )


@functools.cache
def check_version(name: str) -> None:
    """Refuse a device whose plugin is of an untested version."""
    if not name.startswith("lightning."):
        return
    package = _lightning_package(name)
    version = importlib.metadata.version(package)
    # Each package of Lightning's has the interface of the version that it is of.
    if not is_supported("pennylane-lightning", version):
        supported = SUPPORTED["pennylane-lightning"]
        raise CompileError(
            f"{package} {version} is not a version that bellhop was tested with ({supported}), and "
            f'its compiled interface may differ. Install it by pip install "{package}{supported}".'
        )


def _lightning_package(name: str) -> str:
    """Return the distribution with a Lightning device; each but lightning.qubit has its own."""
    package = f"pennylane-lightning-{name.partition('.')[2]}"
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return "pennylane-lightning"
    return package


def has_engine(device: qml.devices.Device) -> bool:
    """Tell whether the engine has circuits of any size of a device with a compiled interface."""
    return device.name in _DEVICES_OF_ANY_SIZE


def bits_of_states(device: qml.devices.Device) -> int:
    """Return the bits of the real numbers of a circuit's states in the engine.

    They are what the program asks for, or else the device, or else JAX's 64-bit types.
    """
    options = current_options()
    asked = options.precision if options else None
    if asked is None:
        asked = "single" if is_in_single_precision(device) or not is_double() else "double"
    return 32 if asked == "single" else 64


def is_in_single_precision(device: qml.devices.Device) -> bool:
    """Tell whether the states of a device were asked to be in half the precision."""
    return getattr(device, "c_dtype", np.complex128) == np.complex64


def check_options(device: qml.devices.Device, where: str) -> None:
    """Refuse options of a Lightning device that its compiled interface does not take.

    Raises:
        CompileError: names the QNode, the option, and what to do.
    """
    if not device.name.startswith("lightning."):
        return
    kokkos_args = getattr(device, "_sv_init_kwargs", {}).get("kokkos_args")
    for is_set, option, instead in (
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


@dataclass(frozen=True)
class _Traps:
    """What the plugin of a device does otherwise than PennyLane.

    Attributes:
        gates: what it lists, and applies otherwise.
        controlled: those that are wrong with controls.
        variances: whether variances are wrong.
        projections: whether a matrix that is no unitary leaves a state of another norm.
        samples: whether samples are sorted.
        preparations: what prepares the state.
    """

    gates: tuple[str, ...] = ()
    controlled: tuple[str, ...] = ()
    variances: bool = False
    projections: bool = False
    samples: bool = False
    preparations: tuple[str, ...] = _PREPARATIONS


# By the name before the dot; pennylane-qrack 1.3.
_TRAPS = {
    "qrack": _Traps(
        gates=("CY", "MultiRZ", "PSWAP"),
        controlled=("ISWAP", "PauliY", "S", "T"),
        variances=True,
        projections=True,
        samples=True,
        preparations=(),
    )
}


def _traps(name: str) -> _Traps:
    return _TRAPS.get(name.partition(".")[0], _Traps())


def check_runs(name: str, where: str, *, is_tree: bool, n_groups: int) -> None:
    """Refuse a circuit with measurements that a device gets wrong.

    Args:
        name: PennyLane's of the device.
        where: the QNode, for errors.
        is_tree: whether results are sums over the outcomes of mid-circuit measurements.
        n_groups: how many groups of shots there are.

    Raises:
        CompileError: names the QNode and what to do.
    """
    traps = _traps(name)
    if is_tree and traps.projections:
        raise CompileError(
            f"{where}: it measures in the middle of the circuit without shots, and {name} does not "
            "project states as exact means over outcomes need. Set shots: qml.set_shots(circuit, "
            "100)."
        )
    if n_groups > 1 and traps.samples:
        raise CompileError(
            f"{where}: it has several groups of shots, and {name} returns samples in sorted order, "
            "so the groups would differ. Use one number of shots, and call the QNode several times."
        )


class GateSet:
    """Which operations a device applies itself, and which observables it measures.

    Attributes:
        has_adjoint: whether it has the adjoint method, which some of its gates are marked for.
        observables: their names.
        measures_words: whether of these it is asked for the means of Pauli words alone.
        keeps_matrices: whether no matrix on one wire becomes angles: these are those of a unitary
            matrix only, and their derivatives have poles.
        applies_matrices: whether PennyLane applies whatever has a matrix, observables among the
            gates and gates of complex numbers too.
    """

    def __init__(
        self,
        device: qml.devices.Device,
        *,
        keeps_matrices: bool = False,
        applies_matrices: bool = False,
    ) -> None:
        self._traps = traps = _traps(device.name)
        self.applies_matrices = applies_matrices
        self.keeps_matrices = keeps_matrices and not traps.projections
        self._properties = {
            name: properties
            for name, properties in device.capabilities.operations.items()
            if name not in (*_NOT_THROUGH_PLUGIN, *_PYTHON_ONLY, *traps.gates)
        }
        self.has_adjoint = any(each.differentiable for each in self._properties.values())
        self.observables = frozenset(device.capabilities.observables)
        self.measures_words = traps.variances

    def __contains__(self, name: object) -> bool:
        return name in self._properties

    def applies(self, name: str, *, adjoint: bool = False, controlled: bool = False) -> bool:
        """Tell whether the device applies an operation, inverted and controlled as given."""
        properties = self._properties.get(name)
        if properties is None:
            return name in self._traps.preparations and not adjoint and not controlled
        return (properties.invertible or not adjoint) and (
            (properties.controllable and name not in self._traps.controlled) or not controlled
        )

    def differentiates(self, name: str) -> bool:
        """Tell whether the adjoint method of the device differentiates an operation.

        Where it has none, circuits run again with shifted parameters, whatever they are made of.
        """
        if not self.has_adjoint:
            return True
        properties = self._properties.get(name)
        return (
            properties is not None and properties.differentiable and name not in _WRONG_DERIVATIVE
        )
