"""Passes over the circuits of a QNode: ``bellhop.passes``, and ``pipeline`` of several."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "apply_pass",
    "cancel_inverses",
    "merge_loop_boundaries",
    "merge_rotations",
    "pauli_twirling",
    "pipeline",
]

# What `circuits` does while it traces a circuit that asks for it.
CANCEL_INVERSES, MERGE_LOOP_BOUNDARIES = "cancel-inverses", "merge-loop-boundaries"
MERGE_ROTATIONS, PAULI_TWIRLING = "merge-rotations", "pauli-twirling"
_PASSES = (CANCEL_INVERSES, MERGE_LOOP_BOUNDARIES, MERGE_ROTATIONS, PAULI_TWIRLING)
# Passes of Catalyst's that are transforms of PennyLane's.
_TRANSFORMS = ("combine_global_phases", "diagonalize_measurements", "gridsynth")

NO_PLUGINS = "there are no plugins of MLIR"
_PAULI = "circuits are of gates here, not of Pauli product rotations and measurements"
# Catalyst's that we have not, and why.
_FOREIGN = {
    "Pass": 'a pass is its name: bellhop.pipeline({"merge-rotations": {}})',
    "PassPlugin": NO_PLUGINS,
    "apply_pass_plugin": NO_PLUGINS,
    "disentangle_cnot": "gates are kept that act on what the circuit prepares",
    "disentangle_swap": "gates are kept that act on what the circuit prepares",
    "graph_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "ions_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "parity_synth": "phase polynomials are not looked for",
} | dict.fromkeys(
    (
        *("commute_ppr", "decompose_arbitrary_ppr", "merge_ppr_ppm", "ppm_compilation"),
        *("ppm_specs", "ppr_to_mbqc", "ppr_to_ppm", "reduce_t_depth", "to_ppr"),
    ),
    _PAULI,
)

# Where a QNode holds its passes; PennyLane copies a QNode with all that it holds.
_ATTRIBUTE = "_bellhop_passes"


def __dir__() -> list[str]:
    """Return the public names, without the imports of this module."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMS:
        from pennylane import transforms

        return getattr(transforms, name)
    message = f"module '{__name__}' has no attribute '{name}'"
    if name in _FOREIGN:
        message += f": '{name}' (of Catalyst): {_FOREIGN[name]}."
    raise AttributeError(message, name=name)


def pass_names(label: str, passes: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of passes, as the compiler knows them.

    Raises:
        TypeError: where they are no mapping.
        ValueError: for a pass, or an option of one, that there is not.
    """
    if not isinstance(passes, Mapping):
        raise TypeError(
            f"{label}: expected a dictionary of passes and their options, got {passes!r}. "
            'Give {"merge-rotations": {}}, for example.'
        )
    names = []
    for key, options in passes.items():
        name = key.replace("_", "-")
        if name not in _PASSES:
            there_are = ", ".join(_PASSES)
            raise ValueError(f"{label}: there is no circuit pass '{key}'; there are {there_are}.")
        if options:
            raise ValueError(
                f"{label}: the pass '{key}' has no options; given are {dict(options)}."
            )
        names.append(name)
    return tuple(names)


def requested_passes(qnode: Any) -> tuple[str, ...] | None:
    """Return the passes that a QNode asks for; None where it leaves that to the program."""
    return getattr(qnode, _ATTRIBUTE, None)


def pipeline(passes: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """Choose the passes that run over the circuits of a QNode, in compiled programs.

    Args:
        passes: the names, in order, each with a dictionary of options.  Those of ``bellhop.passes``
            have none; ``combine_global_phases``, ``diagonalize_measurements`` and ``gridsynth``
            are PennyLane's transforms, come before these, and have their options.

    Returns:
        a decorator for QNodes; they get these passes in place of those of the program
        (``qjit(circuit_transform_pipeline=...)``).

    Raises:
        ValueError: for a pass that there is not.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @bellhop.pipeline({"cancel_inverses": {}, "merge_rotations": {}})
        ... @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit(x):
        ...     qml.Hadamard(0)
        ...     qml.Hadamard(0)
        ...     qml.RX(x, 0)
        ...     qml.RX(-x, 0)
        ...     return qml.expval(qml.Z(0))
        >>> circuit(0.4)
        Array(1., dtype=float64)

    The interface is that of Catalyst's ``pipeline``.
    """
    if not isinstance(passes, Mapping):
        pass_names("pipeline", passes)
    transforms = {name: passes[name] for name in passes if _transform_name(name)}
    names = pass_names(
        "pipeline", {name: passes[name] for name in passes if name not in transforms}
    )

    def decorate(qnode: Any) -> Any:
        changed = _with_passes(qnode, names)
        for name, options in transforms.items():
            changed = __getattr__(_transform_name(name))(changed, **options)
        return changed

    return decorate


def apply_pass(name: str, *flags: str, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds a pass, by its name, to those of a QNode.

    Args:
        name: of the pass, as ``pipeline`` takes it.
        flags: options without a value.
        options: options with a value.

    Raises:
        ValueError: for a pass, or an option of one, that there is not.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @bellhop.passes.apply_pass("cancel_inverses")
        ... @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit():
        ...     qml.X(0)
        ...     qml.X(0)
        ...     return qml.expval(qml.Z(0))
        >>> circuit()
        Array(1., dtype=float64)
        >>> "PauliX" in circuit.mlir
        False
    """
    given = dict.fromkeys(flags, True) | options
    transform = _transform_name(name)
    if transform:
        return lambda qnode: __getattr__(transform)(
            _with_passes(qnode, requested_passes(qnode)), **given
        )
    (known,) = pass_names("apply_pass", {name: given})
    return lambda qnode: _with_passes(qnode, (*(requested_passes(qnode) or ()), known))


def cancel_inverses(qnode: Any) -> Any:
    """Drop pairs of gates that undo one another from the circuits of a QNode.

    Args:
        qnode: the QNode.

    Returns:
        a QNode, whose circuits are so simplified in compiled programs; elsewhere it is the same.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @bellhop.passes.cancel_inverses
        ... @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit():
        ...     qml.X(0)
        ...     qml.X(0)
        ...     return qml.expval(qml.Z(0))
        >>> circuit()
        Array(1., dtype=float64)
        >>> "PauliX" in circuit.mlir
        False
    """
    return apply_pass(CANCEL_INVERSES)(qnode)


def merge_rotations(qnode: Any) -> Any:
    """Merge rotations about the same axis in the circuits of a QNode.

    Angles that the program computes are summed in it, and differentiated there: gradients are
    the same, by fewer parameters of the circuit.

    Args:
        qnode: the QNode.

    Returns:
        a QNode, whose circuits are so simplified in compiled programs; elsewhere it is the same.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @bellhop.passes.merge_rotations
        ... @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit():
        ...     qml.RX(0.5, 0)
        ...     qml.RX(-0.5, 0)
        ...     return qml.expval(qml.Z(0))
        >>> circuit()
        Array(1., dtype=float64)
        >>> circuit.mlir.count("RX")
        0
    """
    return apply_pass(MERGE_ROTATIONS)(qnode)


def merge_loop_boundaries(qnode: Any) -> Any:
    """Cancel and merge gates at the end of an iteration with those at the beginning of the next.

    Gates with constant parameters take part, in loops of any number of iterations.  Rotations by
    computed angles do in loops of gates alone, whose bounds are Python numbers.

    Args:
        qnode: the QNode.

    Returns:
        a QNode, whose circuits are so simplified in compiled programs; elsewhere it is the same.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @bellhop.passes.merge_loop_boundaries
        ... @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit(x):
        ...     @bellhop.for_loop(0, 100, 1)
        ...     def loop(i):
        ...         qml.Hadamard(0)
        ...         qml.RX(x, 0)
        ...         qml.Hadamard(0)
        ...     loop()
        ...     return qml.expval(qml.Z(0))
        >>> circuit(0.4)
        Array(1., dtype=float64)
    """
    return apply_pass(MERGE_LOOP_BOUNDARIES)(qnode)


def pauli_twirling(qnode: Any) -> Any:
    """Apply random Paulis around each CNOT and CZ, which together change nothing.

    The Paulis are drawn when the program runs: anew at each call, in each iteration of a loop and
    in each row of a `vmap`. With ``qjit(seed=...)`` every call draws the same; a device with a seed
    gives a sequence of draws. A noise model of ``qml.add_noise`` on ``default.mixed`` sees
    the Paulis as gates. Without noise every call returns the same value.

    Args:
        qnode: the QNode.

    Returns:
        a QNode, whose circuits are twirled in compiled programs; elsewhere it is the same.

    Source: J. J. Wallman and J. Emerson, Physical Review A 94, 052325 (2016).

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit(seed=1)
        ... @bellhop.passes.pauli_twirling
        ... @qml.qnode(qml.device("lightning.qubit", wires=2))
        ... def circuit(x):
        ...     qml.RX(x, 0)
        ...     qml.CNOT([0, 1])
        ...     return qml.expval(qml.Z(1))
        >>> round(float(circuit(0.4)), 6)
        0.921061
    """
    return apply_pass(PAULI_TWIRLING)(qnode)


def _transform_name(name: str) -> str:
    """Return the name of PennyLane's transform that a pass is; nothing for one of ours."""
    name = name.replace("-", "_")
    return name if name in _TRANSFORMS else ""


def _with_passes(qnode: Any, names: tuple[str, ...] | None) -> Any:
    from pennylane import QNode

    if not isinstance(qnode, QNode):
        raise TypeError(
            f"passes are for QNodes, got {qnode!r} of type {type(qnode).__name__}. For all "
            "circuits of a program: qjit(circuit_transform_pipeline={...})."
        )
    changed = copy.copy(qnode)
    if names is not None:
        setattr(changed, _ATTRIBUTE, names)
    return changed
