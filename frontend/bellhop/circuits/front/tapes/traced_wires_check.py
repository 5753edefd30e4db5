"""Check that the transforms of a tape support its traced wires.

In ``qml.X(w)`` with a traced ``w``, PennyLane takes ``w`` for a wire that differs from the wires 0
and 1.  So ``qml.transforms.undo_swaps`` of ``qml.SWAP([0, w])`` and ``qml.map_wires(..., {0: 1})``
of ``qml.X(w)`` would give wrong values, and transforms that may compare wires need static ones.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml

# PennyLane's transforms that are right with traced wires: they change each operation or measurement
# by itself, or do not move gates past a gate with a traced wire.
_SUPPORTS_TRACED_WIRES = frozenset(
    {
        "batch_input",
        "batch_params",
        "broadcast_expand",
        "cancel_inverses",
        "clifford_t_decomposition",
        "combine_global_phases",
        "commute_controlled",
        "convert_to_numpy_parameters",
        "decompose",
        "fold_global",
        "merge_amplitude_embedding",
        "merge_rotations",
        "remove_barrier",
        "rz_phase_gradient",
        "single_qubit_fusion",
        "split_non_commuting",
        "split_to_single_terms",
        "unitary_to_rot",
    }
)


def check_traced_wires(transforms: Any, tape: qml.tape.QuantumScript, where: str) -> None:
    """Raise an error if a transform may compare wires, and a wire of the tape is traced.

    Transforms that are not PennyLane's may compare wires, since their code is unknown.

    Args:
        transforms: PennyLane's ``BoundTransform`` objects, in the order in which they are applied.
        tape: the circuit before the transforms.
        where: the QNode's name and line, which begin error messages.

    Raises:
        CompileError: names the transform, and the operations and measurements on traced wires.
    """
    parts = [*tape.operations, *tape.measurements]
    traced = [part for part in parts if any(map(is_dynamic, part.wires))]
    if not traced:
        return
    # PennyLane itself adds the expansion of gates before a gradient transform.
    expansions = [getattr(each.expand_transform, "tape_transform", None) for each in transforms]
    for transform in transforms:
        name = _find_comparing_transform(transform)
        if name is None or transform.tape_transform in expansions:
            continue
        # Without duplicates, in order.
        labels = ", ".join(dict.fromkeys(map(_describe, traced)))
        raise CompileError(
            f"{where}: the transform {name} may compare wires, expected static wires, got traced "
            f"wires of {labels}. Make the arguments that these wires are computed from static "
            "(static_argnums), loop over Python numbers, or leave the transform out."
        )


def _describe(part: Any) -> str:
    """Return a short name of an operation or measurement, such as ``"RX"`` or ``"probs"``."""
    if not is_measurement(part):
        return "measure" if part.name.startswith("MidMeasure") else str(part.name)
    kind = str(getattr(part, "_shortname", type(part).__name__))
    return kind if part.obs is None else f"{kind} of {part.obs.name}"


def _find_comparing_transform(transform: Any) -> str | None:
    """Return a transform's name if it may compare wires, else None.

    Args:
        transform: a ``BoundTransform``. For ``qml.compile``, the transforms in its pipeline are
            examined, and the name of the first that may compare wires is returned.
    """
    function = transform.tape_transform
    if function is None:
        # Bellhop's own passes support traced wires.
        return None
    name = function.__name__.removeprefix("_").removesuffix("_transform")
    if not function.__module__.startswith("pennylane."):
        return str(name)
    if name == "compile":
        found = map(_find_comparing_transform, _read_pipeline(transform))
        return next(filter(None, found), None)
    if name == "insert":
        # Noise at the start or the end is for each wire of the circuit, counted without tracers.
        is_separate = _read_argument(transform, 2, "position", "all") in ("start", "end")
        return "insert" if is_separate else None
    return None if name in _SUPPORTS_TRACED_WIRES else str(name)


def _read_pipeline(transform: Any) -> Iterator[Any]:
    """Return the transforms in the pipeline of ``qml.compile``, in order."""
    for each in _read_argument(transform, 0, "pipeline", ()):
        yield each.func if isinstance(each, functools.partial) else each


def _read_argument(transform: Any, position: int, name: str, default: Any) -> Any:
    """Return an argument of a ``BoundTransform``, or ``default`` if it was not passed.

    The argument may have been passed at ``position`` or by ``name``.
    """
    if len(transform.args) > position:
        return transform.args[position]
    return transform.kwargs.get(name, default)
