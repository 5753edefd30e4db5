"""What changes the operations of a circuit while it is traced: PennyLane's transforms, folding."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pennylane as qml

# Transforms that may see a circuit piece by piece, between its loops and conditionals: what they
# do to some gates is right whatever comes before and after.
_PIECEWISE = (
    "cancel_inverses",
    "combine_global_phases",
    "commute_controlled",
    "compile",
    "decompose",
    "merge_rotations",
    "remove_barrier",
    "single_qubit_fusion",
    "unitary_to_rot",
)

Operations = list[Any]


@dataclass(frozen=True)
class Rewrite:
    """A change of the operations of a circuit.

    Attributes:
        apply: takes the operations of a piece and returns those in their place.
        whole: what needs the whole circuit in one piece; empty where pieces will do.
    """

    apply: Callable[[Operations], Operations]
    whole: str = ""


def rewrites_of(qnode: qml.QNode) -> list[Rewrite]:
    """Return what changes the operations of a QNode, all of whose transforms are piecewise."""
    rewrites = [_transformed(transform) for transform in qnode.compile_pipeline]
    folding = _folding.get()
    return rewrites if folding is None else [*rewrites, folding]


def transform_name(transform: Any) -> str:
    """Return the name that a user knows a transform by."""
    name = getattr(transform.tape_transform, "__name__", str(transform))
    return name.removeprefix("_").removesuffix("_transform")


def is_piecewise(transform: Any) -> bool:
    """Tell whether a transform may see a circuit piece by piece."""
    name = transform_name(transform)
    # What qml.compile does of its own accord may; what it is told to do may be anything.
    is_told = name == "compile" and bool(transform.args or transform.kwargs)
    return name in _PIECEWISE and not is_told


def _transformed(transform: Any) -> Rewrite:
    function = transform.tape_transform

    def apply(operations: Operations) -> Operations:
        tape = qml.tape.QuantumScript(operations)
        with qml.QueuingManager.stop_recording():
            (changed,), _ = function(tape, *transform.args, **transform.kwargs)
        return list(changed.operations)

    return Rewrite(apply)


_folding: contextvars.ContextVar[Rewrite | None] = contextvars.ContextVar(
    "bellhop_folding", default=None
)


@contextlib.contextmanager
def folded(scale: int, folding: str) -> Iterator[None]:
    """Fold the circuits that are traced inside: each gate, or the whole, undone and done again."""
    times = (scale - 1) // 2
    rewrite = (
        Rewrite(lambda ops: _fold_all(ops, times), "global folding")
        if folding == "global"
        else Rewrite(lambda ops: [part for op in ops for part in _fold_all([op], times)])
    )
    token = _folding.set(rewrite)
    try:
        yield
    finally:
        _folding.reset(token)


def _fold_all(operations: Operations, times: int) -> Operations:
    """Return operations with their inverse and themselves again after them, so many times."""
    preparations = [op for op in operations if isinstance(op, qml.operation.StatePrepBase)]
    gates = [op for op in operations if not isinstance(op, qml.operation.StatePrepBase)]
    with qml.QueuingManager.stop_recording():
        inverse = [qml.adjoint(op) for op in reversed(gates)]
    return [*preparations, *gates, *((inverse + gates) * times)]
