"""What changes the operations of a circuit while it is traced: PennyLane's transforms, folding."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pennylane as qml
from pennylane.transforms.core import BoundTransform

from bellhop.circuits.gates.matrix_derivatives import keep_derivatives
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.passes.pauli_twirling import twirl
from bellhop.passes import PAULI_TWIRLING, pass_names
from bellhop.tracing.state import override_trace_state, trace_state

# Transforms that may see a circuit piece by piece, between its loops and conditionals: what they
# do to some gates is right whatever comes before and after.
_PIECEWISE_TRANSFORMS = (
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

Operations = Sequence[Any]
# Takes the operations of a piece of a circuit, and returns those in their place.
Rewrite = Callable[[Operations], Operations]


def make_rewrite(config: CircuitConfig) -> Rewrite:
    """Return the function that changes operations as the piecewise transforms of a QNode do.

    Noise models are left out: circuits add noise themselves.
    """
    has_shots = bool(config.shots.total)
    rewrites = [
        _make_gridsynth_rewrite(transform)
        if _is_gridsynth(transform)
        else _make_transform_rewrite(transform, has_shots)
        for transform in config.transforms
        if not _is_pass(transform) and get_transform_name(transform) not in _NOISE_TRANSFORMS
    ]
    if PAULI_TWIRLING in config.passes and not adds_noise(config.transforms):
        rewrites.append(functools.partial(twirl, names_paulis=False))
    folding = trace_state().folding
    if folding is not None and not folding.is_global:
        rewrites.append(lambda ops: _fold_each(ops, folding.n_folds))
    return lambda operations: functools.reduce(lambda ops, each: each(ops), rewrites, operations)


def make_change_before_noise(config: CircuitConfig) -> Rewrite:
    """Return the function that changes operations before a noise model sees them."""
    if PAULI_TWIRLING in config.passes:
        return functools.partial(twirl, names_paulis=True)
    return lambda operations: operations


def adds_noise(transforms: Sequence[BoundTransform]) -> bool:
    """Return whether a noise model of ``qml.add_noise`` is among transforms."""
    return any(get_transform_name(transform) in _NOISE_TRANSFORMS for transform in transforms)


def find_transform_passes(transforms: Sequence[BoundTransform]) -> tuple[str, ...]:
    """Return the names of the passes among transforms, ``qml.transform(pass_name=...)``.

    Raises:
        ValueError: for a pass, or an option of one, that there is not.
    """
    passes: list[str] = []
    for transform in filter(_is_pass, transforms):
        passes += pass_names("qml.transform", {transform.pass_name: transform.kwargs})
    return tuple(passes)


def _is_pass(transform: Any) -> bool:
    """Tell whether a transform is a pass of ours, which is known by its name alone."""
    return transform.tape_transform is None and transform.pass_name not in (None, "gridsynth")


def _is_gridsynth(transform: Any) -> bool:
    """Tell whether a transform is the pass that is done here, where angles are known."""
    return transform.tape_transform is None and transform.pass_name == "gridsynth"


def _make_gridsynth_rewrite(transform: Any) -> Rewrite:
    from bellhop.circuits.passes.gridsynth import decompose_rotations

    return lambda operations: decompose_rotations(operations, **transform.kwargs)


def get_transform_name(transform: Any) -> str:
    """Return the name that a user knows a transform by."""
    name = getattr(transform.tape_transform, "__name__", str(transform))
    return name.removeprefix("_").removesuffix("_transform")


@contextmanager
def add_transform_note(transforms: str) -> Iterator[None]:
    """Add a note that names transforms to what PennyLane raises in them."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised in PennyLane's transform {transforms}")
        raise


def is_piecewise(transform: Any) -> bool:
    """Tell whether a transform may see a circuit piece by piece."""
    if _is_pass(transform) or _is_gridsynth(transform):
        return True
    name = get_transform_name(transform)
    # What qml.compile does of its own accord may; what it is told to do may be anything.
    is_told = name == "compile" and bool(transform.args or transform.kwargs)
    return name in _PIECEWISE_TRANSFORMS and not is_told


# Transforms that replace each QubitUnitary by rotations.
_MATRIX_DECOMPOSITIONS = ("decompose", "unitary_to_rot")


def _make_transform_rewrite(transform: Any, has_shots: bool) -> Rewrite:
    """Return what a piecewise transform does to operations, with right derivatives of matrices."""
    apply, name = _make_tape_rewrite(transform), get_transform_name(transform)
    if name not in _MATRIX_DECOMPOSITIONS:
        return apply
    return keep_derivatives(apply, name, has_shots=has_shots)


def keep_derivatives_of_matrices(transform: Any, *, has_shots: bool) -> Any:
    """Return a transform of tapes that is differentiable where matrices are computed.

    Args:
        transform: of the QNode.
        has_shots: whether the circuit has shots.
    """
    if get_transform_name(transform) not in _MATRIX_DECOMPOSITIONS:
        return transform
    rewrite = _make_transform_rewrite(transform, has_shots)

    @functools.wraps(transform.tape_transform)
    def decompose(tape: Any, *_: Any, **__: Any) -> Any:
        return (tape.copy(operations=rewrite(tape.operations)),), lambda results: results[0]

    return type(transform)(decompose, transform.args, transform.kwargs)


def _make_tape_rewrite(transform: Any) -> Rewrite:
    function = transform.tape_transform

    def apply(operations: Operations) -> Operations:
        tape = qml.tape.QuantumScript(operations)
        with qml.QueuingManager.stop_recording(), add_transform_note(get_transform_name(transform)):
            (changed,), _ = function(tape, *transform.args, **transform.kwargs)
        return list(changed.operations)

    return apply


@dataclass(frozen=True)
class Folding:
    """How circuits are folded: undone and done again, so many times.

    Attributes:
        n_folds: how many.
        is_global: whether it is the circuit as a whole, or each gate.
    """

    n_folds: int
    is_global: bool


def get_global_folding() -> int:
    """Return how many times circuits that are traced now are folded as a whole."""
    folding = trace_state().folding
    return folding.n_folds if folding is not None and folding.is_global else 0


# Transforms that add noise behind gates: those of a folded circuit, since noise has no inverse.
_NOISE_TRANSFORMS = ("add_noise", "insert")


def insert_folding_before_noise(transforms: Sequence[Any]) -> tuple[list[Any], bool]:
    """Return transforms, with folding in front of the first that adds noise.

    Returns:
        the transforms, and whether one of them folds.
    """
    folding = trace_state().folding
    noisy = [
        n for n, each in enumerate(transforms) if get_transform_name(each) in _NOISE_TRANSFORMS
    ]
    if folding is None or not noisy:
        return list(transforms), False

    @qml.transform
    def fold(tape: Any) -> Any:
        operations = _fold(tape.operations, folding)
        return (tape.copy(operations=operations),), lambda results: results[0]

    return [*transforms[: noisy[0]], BoundTransform(fold), *transforms[noisy[0] :]], True


def _fold(operations: Operations, folding: Folding) -> Operations:
    # Inverses are gates of their own where they can be, which noise models know by name.
    if not folding.is_global:
        return _fold_each(operations, folding.n_folds, is_lazy=False)
    gates = [op for op in operations if not isinstance(op, qml.operation.StatePrepBase)]
    undone = [qml.adjoint(op, lazy=False) for op in reversed(gates)]
    return [*operations, *(undone + gates) * folding.n_folds]


def fold_circuits(scale: int, folding: str) -> AbstractContextManager[None]:
    """Fold the circuits that are traced inside, so that there are ``scale`` times the gates."""
    return override_trace_state(folding=Folding((scale - 1) // 2, folding == "global"))


def _fold_each(operations: Operations, n_folds: int, *, is_lazy: bool = True) -> Operations:
    """Return operations, each gate with its inverse and itself again after it, so many times."""
    folded: list[Any] = []
    for op in operations:
        folded.append(op)
        if not isinstance(op, qml.operation.StatePrepBase):
            with qml.QueuingManager.stop_recording():
                folded += [qml.adjoint(op, lazy=is_lazy), op] * n_folds
    return folded
