"""Circuit passes: decorators for QNodes in ``bellhop.passes``, and ``pipeline``."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from bellhop.base.option_checks import check_option
from bellhop.base.public_function import public_function

__all__ = [
    "apply_pass",
    "cancel_inverses",
    "merge_loop_boundaries",
    "merge_rotations",
    "pauli_twirling",
    "pipeline",
]

# Passes that Bellhop applies while it traces a circuit.
CANCEL_INVERSES, MERGE_LOOP_BOUNDARIES = "cancel-inverses", "merge-loop-boundaries"
MERGE_ROTATIONS, PAULI_TWIRLING = "merge-rotations", "pauli-twirling"
_PASSES = (CANCEL_INVERSES, MERGE_LOOP_BOUNDARIES, MERGE_ROTATIONS, PAULI_TWIRLING)
# Catalyst passes that are PennyLane transforms.
_TRANSFORMS = ("combine_global_phases", "diagonalize_measurements", "gridsynth")

NO_PLUGINS = "plugins of MLIR are not supported"
_PAULI = "bellhop's circuits consist of gates, not of Pauli product rotations and measurements"
# Catalyst passes that Bellhop does not have, and the reason, which ends the AttributeError.
_FOREIGN = {
    "Pass": 'a pass is its name: bellhop.pipeline({"merge-rotations": {}})',
    "PassPlugin": NO_PLUGINS,
    "apply_pass_plugin": NO_PLUGINS,
    "disentangle_cnot": "bellhop does not simplify gates on known states",
    "disentangle_swap": "bellhop does not simplify gates on known states",
    "graph_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "ions_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "parity_synth": "bellhop does not optimize phase polynomials",
} | dict.fromkeys(
    (
        *("commute_ppr", "decompose_arbitrary_ppr", "merge_ppr_ppm", "ppm_compilation"),
        *("ppm_specs", "ppr_to_mbqc", "ppr_to_ppm", "reduce_t_depth", "to_ppr"),
    ),
    _PAULI,
)

# Attribute of a QNode with its passes; copies of a QNode keep it.
_ATTRIBUTE = "_bellhop_passes"


def __dir__() -> list[str]:
    """Return the public names, without the imports of this module."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def __getattr__(name: str) -> Any:
    """Get a PennyLane transform that is also a Catalyst pass, such as ``gridsynth``.

    Raises:
        AttributeError: for all other names; gives the reason if the name is a Catalyst pass that
            Bellhop does not have.
    """
    if name in _TRANSFORMS:
        from pennylane import transforms

        return getattr(transforms, name)
    message = f"module '{__name__}' has no attribute '{name}'"
    if name in _FOREIGN:
        message += f": '{name}' (of Catalyst): {_FOREIGN[name]}."
    raise AttributeError(message, name=name)


def pass_names(label: str, passes: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Check names and options of Bellhop's own circuit passes; return the names.

    For example ``{"merge_rotations": {}}`` gives ``("merge-rotations",)``.

    Args:
        label: name of the user's option or function, for errors.
        passes: options of each pass, by name; underscores and hyphens are equivalent.

    Returns:
        the names with hyphens, in the given order.

    Raises:
        TypeError: if `passes` is not a mapping.
        ValueError: for an unknown pass, or if a pass has any options.
    """
    if not isinstance(passes, Mapping):
        raise TypeError(
            f"{label}: expected a dictionary of passes and their options, got {passes!r}. Pass "
            '{"merge-rotations": {}}, for example.'
        )
    names = []
    for key, options in passes.items():
        name = key.replace("_", "-")
        if name not in _PASSES:
            there_are = ", ".join(_PASSES)
            raise ValueError(f"{label}: there is no circuit pass '{key}'; there are {there_are}.")
        if options:
            raise ValueError(f"{label}: the pass '{key}' has no options, got {dict(options)}.")
        names.append(name)
    return tuple(names)


def requested_passes(qnode: Any) -> tuple[str, ...] | None:
    """Return the circuit passes that `pipeline` or `apply_pass` chose for a QNode.

    Returns:
        names of passes, in order. None if none were chosen: then the passes of the program apply,
        ``qjit(circuit_transform_pipeline=...)``.
    """
    return getattr(qnode, _ATTRIBUTE, None)


@public_function
def pipeline(passes: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """Choose the circuit passes for a QNode in compiled programs.

    Args:
        passes: names of passes, in order, each with a dictionary of options.  The passes in
            ``bellhop.passes`` have no options; ``combine_global_phases``,
            ``diagonalize_measurements`` and ``gridsynth`` are PennyLane's transforms with its
            options, and are applied first.

    Returns:
        a decorator for QNodes.  These passes replace the passes of the program
        (``qjit(circuit_transform_pipeline=...)``).

    Raises:
        TypeError: if ``passes`` is not a mapping; when decorated, if the object is not a QNode.
        ValueError: for an unknown pass, and for options of a pass in ``bellhop.passes``.

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

    Same interface as Catalyst's ``pipeline``.
    """
    if not isinstance(passes, Mapping):
        pass_names("pipeline", passes)
    transforms = {name: passes[name] for name in passes if _transform_name(name)}
    names = pass_names(
        "pipeline", {name: passes[name] for name in passes if name not in transforms}
    )

    def decorate(qnode: Any) -> Any:
        """Return a copy of the QNode with the chosen passes and transforms.

        PennyLane's transforms are applied to the copy at once; Bellhop's passes are stored for
        compiled programs.

        Raises:
            TypeError: if `qnode` is not a QNode.
        """
        changed = _with_passes(qnode, names)
        for name, options in transforms.items():
            changed = __getattr__(_transform_name(name))(changed, **options)
        return changed

    return decorate


@public_function
def apply_pass(name: str, *flags: str, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that appends a circuit pass to the passes of a QNode.

    If the pass is in ``bellhop.passes``, the passes of the QNode replace the passes of the program,
    also if the QNode had none before.

    Args:
        name: name of the pass, as in ``pipeline``.
        flags: names of options whose value is True.
        options: options with a value. Only the passes that are transforms of PennyLane have
            options; they are applied at once.

    Returns:
        a decorator, which returns a copy of the QNode.

    Raises:
        ValueError: for an unknown pass, and for options of a pass in ``bellhop.passes``.
        TypeError: when decorated, if the object is not a QNode.

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


@public_function
def cancel_inverses(qnode: Any) -> Any:
    """Drop pairs of gates that undo each other from the circuits of a QNode.

    Args:
        qnode: the QNode, which is not changed.

    Returns:
        a QNode whose circuits are simplified in compiled programs; uncompiled it is unchanged.

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


@public_function
def merge_rotations(qnode: Any) -> Any:
    """Merge adjacent rotations about the same axis in the circuits of a QNode.

    The program adds traced angles and differentiates the sum, so gradients are equal but the
    circuit has fewer parameters.

    Args:
        qnode: the QNode, which is not changed.

    Returns:
        a QNode whose circuits are simplified in compiled programs; uncompiled it is unchanged.

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


@public_function
def merge_loop_boundaries(qnode: Any) -> Any:
    """Cancel and merge gates across the boundary between iterations of a loop.

    Gates at the end of an iteration meet gates at the beginning of the next iteration.  Gates with
    constant parameters are merged in all loops; rotations by traced angles are merged in loops that
    contain only gates and have Python integers as bounds.

    Args:
        qnode: the QNode, which is not changed.

    Returns:
        a QNode whose circuits are simplified in compiled programs; uncompiled it is unchanged.

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


@public_function
def pauli_twirling(qnode: Any) -> Any:
    """Surround each CNOT and CZ by random Paulis that cancel without noise.

    The Paulis are drawn when the program runs: for each call, each iteration of a loop and each row
    of a ``vmap``. With ``qjit(seed=...)`` every call draws the same Paulis; a device with a seed
    gives a sequence of draws. A noise model of ``qml.add_noise`` on ``default.mixed`` may add noise
    to the Paulis, as to other gates.

    Args:
        qnode: the QNode, which is not changed.

    Returns:
        a QNode whose circuits are twirled in compiled programs; uncompiled it is unchanged.

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
    """Return a pass name with underscores if it is a PennyLane transform, else ``""``.

    Only the transforms that Catalyst has as passes count: ``combine_global_phases``,
    ``diagonalize_measurements`` and ``gridsynth``.

    Args:
        name: name of a pass, with hyphens or underscores.

    Raises:
        TypeError: if the name is not a string.
    """
    check_option("apply_pass", "name", name, str, "the name of a circuit pass")
    name = name.replace("-", "_")
    return name if name in _TRANSFORMS else ""


def _with_passes(qnode: Any, names: tuple[str, ...] | None) -> Any:
    """Return a copy of a QNode, with other circuit passes for compiled programs.

    Args:
        qnode: the QNode, which is not changed.
        names: names of the passes, which replace the QNode's passes; None for an unchanged copy.

    Raises:
        TypeError: if `qnode` is not a QNode.
    """
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
