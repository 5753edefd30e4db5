"""Devices of the runtime, and the gates and observables that they support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pennylane as qml

# Devices whose circuits the engine runs, however many qubits they have.
_DEVICES_OF_ANY_SIZE = ("lightning.qubit", "lightning.kokkos")


@dataclass(frozen=True)
class DeviceSpec:
    """The parameters with which the runtime opens a device.

    Attributes:
        name: PennyLane's name of the device, such as ``lightning.qubit``.
        library: path of the plugin's shared object.
        factory: name of the plugin's factory function in the shared object.
        kwargs: options, in the plugin's text format.
        qubits: the number of qubits of the circuit.
        shots: the number of shots; 0 for analytic results.
        passes: names of the Bellhop passes over the gates (``bellhop.passes``), in order.
        engine: whether the engine may run the circuit instead of the plugin.
        precision: 32 or 64, the bits of the real part of an amplitude in the engine.
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
        """Whether the engine runs this device's circuits, however many qubits they have.

        True if ``engine`` is set and the device is ``lightning.qubit``, ``lightning.kokkos`` or
        ``default.qubit``.
        """
        return self.engine and self.name in (*_DEVICES_OF_ANY_SIZE, "default.qubit")

    @staticmethod
    def has_engine(name: str) -> bool:
        """Return whether the engine may replace a device's plugin for any circuit size.

        True for the names ``lightning.qubit`` and ``lightning.kokkos``.
        """
        return name in _DEVICES_OF_ANY_SIZE

    @staticmethod
    def describe_size(name: str, qubits: int) -> str:
        """Return a device's name and number of qubits as text, for drawings."""
        return f"{name}, {qubits} qubit{'s' if qubits != 1 else ''}"


# State preparations have their own functions in the plugin interface, and no gate list has them.
_PREPARATIONS = ("StatePrep", "BasisState")

# Gates of plugins have real parameters only, and this gate also needs a dimension.
_UNSUPPORTED_BY_PLUGINS = ("PCPhase",)

# Lightning's Python interface lists these gates, since it applies their matrices.
_UNSUPPORTED_IN_COMPILED_CODE = (
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

# Listed as differentiable, but pennylane-lightning 0.45 computes a wrong derivative.
_WRONG_DERIVATIVE = ("PSWAP",)


@dataclass(frozen=True)
class _PluginDefects:
    """Differences between a compiled plugin and PennyLane's semantics.

    ``GateSet`` avoids the listed operations, which are decomposed or rejected.

    Attributes:
        gates: names of gates that the plugin lists but applies differently.
        controlled: names of gates that are wrong with control wires.
        variances: True if the plugin computes wrong variances.
        projections: True if non-unitary matrices leave a state with a wrong norm.
        samples: True if the plugin sorts its samples, which then are not independent.
        preparations: names of the state preparations that work.
    """

    gates: tuple[str, ...] = ()
    controlled: tuple[str, ...] = ()
    variances: bool = False
    projections: bool = False
    samples: bool = False
    preparations: tuple[str, ...] = _PREPARATIONS


# Keys are the device name before the dot. As of pennylane-qrack 1.3.
_PLUGIN_DEFECTS = {
    "qrack": _PluginDefects(
        gates=("CY", "MultiRZ", "PSWAP"),
        controlled=("ISWAP", "PauliY", "S", "T"),
        variances=True,
        projections=True,
        samples=True,
        preparations=(),
    )
}


class GateSet:
    """The operations and observables that a device supports without decomposition.

    Args:
        device: the PennyLane device, whose capabilities are read.
        keeps_matrices, can_apply_matrices: the values of the attributes. ``keeps_matrices`` is
            ignored, and the attribute False, for a plugin that leaves a wrong norm after
            non-unitary matrices.

    Attributes:
        has_adjoint: whether the device has an adjoint method, that is, differentiable gates.
        observables: names of the supported observables.
        measures_only_pauli_words: whether only expectation values of single Pauli words may be
            measured, since the plugin's variances are wrong.
        keeps_matrices: whether one-wire matrices are applied as matrices instead of rotation
            angles, which exist for unitary matrices only and whose derivatives have poles.
        can_apply_matrices: whether every operation with a matrix is applied by its matrix,
            including observables and gates with complex parameters.
    """

    def __init__(
        self,
        device: qml.devices.Device,
        *,
        keeps_matrices: bool = False,
        can_apply_matrices: bool = False,
    ) -> None:
        self._defects = traps = self.find_plugin_defects(device.name)
        self.can_apply_matrices = can_apply_matrices
        self.keeps_matrices = keeps_matrices and not traps.projections
        self._properties = {
            name: properties
            for name, properties in device.capabilities.operations.items()
            if name not in (*_UNSUPPORTED_BY_PLUGINS, *_UNSUPPORTED_IN_COMPILED_CODE, *traps.gates)
        }
        self.has_adjoint = any(each.differentiable for each in self._properties.values())
        self.observables = frozenset(device.capabilities.observables)
        self.measures_only_pauli_words = traps.variances

    @staticmethod
    def find_plugin_defects(name: str) -> _PluginDefects:
        """Return the known defects of a device's plugin, by PennyLane's device name."""
        return _PLUGIN_DEFECTS.get(name.partition(".")[0], _PluginDefects())

    def __contains__(self, name: object) -> bool:
        return name in self._properties

    def can_apply(self, name: str, *, adjoint: bool = False, controlled: bool = False) -> bool:
        """Return whether the device applies an operation without decomposition.

        Args:
            name: PennyLane's name of the operation, without adjoint and controls.
            adjoint: whether the operation is inverted.
            controlled: whether the operation has control wires.
        """
        properties = self._properties.get(name)
        if properties is None:
            return name in self._defects.preparations and not adjoint and not controlled
        return (properties.invertible or not adjoint) and (
            (properties.controllable and name not in self._defects.controlled) or not controlled
        )

    def can_differentiate(self, name: str) -> bool:
        """Return whether the device's derivative method supports an operation.

        For a device with an adjoint method: whether this method differentiates the operation.
        Always True for other devices, whose circuits are differentiated by parameter shift.
        """
        if not self.has_adjoint:
            return True
        properties = self._properties.get(name)
        return (
            properties is not None and properties.differentiable and name not in _WRONG_DERIVATIVE
        )
