"""Quantum devices: what a PennyLane device means to the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pennylane as qml


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


def describe_size(name: str, qubits: int) -> str:
    """Return a device and how many qubits it has, for pictures."""
    return f"{name}, {qubits} qubit{'s' if qubits != 1 else ''}"


# State preparations go through functions of the plugin's own and are in no list.
_PREPARATIONS = ("StatePrep", "BasisState")

# The plugin takes a gate's numbers alone, and this one also needs a dimension.
_UNSUPPORTED_BY_PLUGINS = ("PCPhase",)

# Listed by Lightning as supported when it runs from Python, where they become matrices.
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

# Listed as differentiable, and pennylane-lightning 0.45 computes a wrong derivative.
_WRONG_DERIVATIVE = ("PSWAP",)


@dataclass(frozen=True)
class _PluginDefects:
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


def find_plugin_defects(name: str) -> _PluginDefects:
    """Return what the plugin of a device does otherwise than PennyLane, by the device's name."""
    return _PLUGIN_DEFECTS.get(name.partition(".")[0], _PluginDefects())


class GateSet:
    """Which operations a device applies itself, and which observables it measures.

    Attributes:
        has_adjoint: whether it has the adjoint method, which some of its gates are marked for.
        observables: their names.
        measures_pauli_words: whether of these it is asked for the means of Pauli words alone.
        keeps_matrices: whether no matrix on one wire becomes angles: these are those of a unitary
            matrix only, and their derivatives have poles.
        can_apply_matrices: whether PennyLane applies whatever has a matrix, observables among the
            gates and gates of complex numbers too.
    """

    def __init__(
        self,
        device: qml.devices.Device,
        *,
        keeps_matrices: bool = False,
        can_apply_matrices: bool = False,
    ) -> None:
        self._defects = traps = find_plugin_defects(device.name)
        self.can_apply_matrices = can_apply_matrices
        self.keeps_matrices = keeps_matrices and not traps.projections
        self._properties = {
            name: properties
            for name, properties in device.capabilities.operations.items()
            if name not in (*_UNSUPPORTED_BY_PLUGINS, *_UNSUPPORTED_IN_COMPILED_CODE, *traps.gates)
        }
        self.has_adjoint = any(each.differentiable for each in self._properties.values())
        self.observables = frozenset(device.capabilities.observables)
        self.measures_pauli_words = traps.variances

    def __contains__(self, name: object) -> bool:
        return name in self._properties

    def can_apply(self, name: str, *, adjoint: bool = False, controlled: bool = False) -> bool:
        """Return whether the device applies an operation, inverted and controlled as given."""
        properties = self._properties.get(name)
        if properties is None:
            return name in self._defects.preparations and not adjoint and not controlled
        return (properties.invertible or not adjoint) and (
            (properties.controllable and name not in self._defects.controlled) or not controlled
        )

    def can_differentiate(self, name: str) -> bool:
        """Return whether the adjoint method of the device differentiates an operation.

        Where it has none, circuits run again with shifted parameters, whatever they are made of.
        """
        if not self.has_adjoint:
            return True
        properties = self._properties.get(name)
        return (
            properties is not None and properties.differentiable and name not in _WRONG_DERIVATIVE
        )
