"""Apply PennyLane's transforms, circuit folding and twirling to operations during tracing.

A circuit with loops and conditionals is not one tape.  Its operations between two constructs are a
*piece*, and a *piecewise* transform may see one piece at a time.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pennylane as qml
from pennylane.transforms.core import BoundTransform

from bellhop.base.exception_attributes import add_note
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.passes.matrix_derivatives import keep_derivatives
from bellhop.circuits.passes.pauli_twirling import twirl
from bellhop.circuits.passes.rewrite import Rewrite
from bellhop.passes import PAULI_TWIRLING, pass_names
from bellhop.tracing.state import override_trace_state, trace_state

# Piecewise transforms: their change of some gates is right independent of the gates before and
# after.
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

# Transforms that add noise after gates. Folding must come first, since noise has no inverse.
_NOISE_TRANSFORMS = frozenset({"add_noise", "insert"})

Operations = Sequence[Any]


@dataclass(frozen=True)
class QNodeTransforms:
    """The PennyLane transforms of one QNode, with methods that examine or adapt them.

    Attributes:
        transforms: PennyLane's ``BoundTransform`` objects, in the order in which they are applied.
    """

    transforms: Sequence[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The public name of each transform, such as ``"add_noise"``."""
        return tuple(map(_get_name, self.transforms))

    @property
    def adds_noise(self) -> bool:
        """Whether ``add_noise`` or ``insert`` is among the transforms."""
        return not _NOISE_TRANSFORMS.isdisjoint(self.names)

    @property
    def is_piecewise(self) -> bool:
        """Whether each transform may see the pieces of a circuit one at a time.

        A piece is the operations between two loops, conditionals or mid-circuit measurements.
        """
        return all(map(_is_piecewise, self.transforms))

    def find_passes(self) -> tuple[str, ...]:
        """Return the names of the Bellhop passes among the transforms, in order.

        ``qml.transform(pass_name="merge-rotations")`` adds such a pass. PennyLane's own transforms
        are left out, and so is ``gridsynth``, which is applied to operations during tracing.

        Raises:
            ValueError: for an unknown pass, or an unknown option of a pass.
        """
        passes: list[str] = []
        for transform in filter(_is_pass, self.transforms):
            passes += pass_names("qml.transform", {transform.pass_name: transform.kwargs})
        return tuple(passes)

    @contextmanager
    def note_errors(self) -> Iterator[None]:
        """Name the transforms in a note on exceptions that are raised in the ``with`` block."""
        try:
            yield
        except Exception as error:
            add_note(error, f"raised in PennyLane's transform {', '.join(self.names)}")
            raise

    def keep_matrix_derivatives(self, *, has_shots: bool) -> list[Any]:
        """Make the transforms differentiable with respect to traced matrices.

        Args:
            has_shots: whether the circuit has shots, so that its device applies no matrices.

        Returns:
            the list of transforms, in which transforms that decompose matrices are replaced.
        """
        return [_keep_matrix_derivatives(each, has_shots) for each in self.transforms]

    def support_traced_angles(self) -> list[Any]:
        """Replace ``clifford_t_decomposition`` by Bellhop's version, which accepts traced angles.

        Returns:
            the list of transforms; the remaining transforms are unchanged.
        """
        from bellhop.circuits.passes.gridsynth import support_traced_angles

        return list(map(support_traced_angles, self.transforms))

    def insert_folding(self) -> tuple[list[Any], bool]:
        """Insert circuit folding before the first transform that adds noise.

        Folding repeats gates to scale their noise, so it must see the circuit before noise is
        added.

        Returns:
            the list of transforms, and whether folding was inserted. It is inserted only inside
            `Folding.fold_circuits`, and only if a transform adds noise.
        """
        folding = trace_state().folding
        if folding is None or not self.adds_noise:
            return list(self.transforms), False
        first = next(n for n, name in enumerate(self.names) if name in _NOISE_TRANSFORMS)

        @qml.transform
        def fold(tape: Any) -> Any:
            operations = _fold(tape.operations, folding)
            return (tape.copy(operations=operations),), lambda results: results[0]

        return [*self.transforms[:first], BoundTransform(fold), *self.transforms[first:]], True


def make_rewrite(config: CircuitConfig) -> Rewrite | None:
    """Combine a QNode's transforms, twirling and gate folding into one function.

    Each transform must accept the operations between two constructs (loops, conditionals,
    mid-circuit measurements) alone. The folding of whole circuits is not included. Transforms that
    add noise are left out, because a `NoisePass` adds the noise; if there is such a transform,
    twirling is left out as well, see `make_rewrite_before_noise`.

    Args:
        config: the QNode's settings, with its transforms and passes.

    Returns:
        a function that maps the operations between two constructs to the operations that replace
        them; None if nothing would change.
    """
    has_shots = bool(config.shots.total)
    rewrites = [
        _make_gridsynth_rewrite(transform)
        if _is_gridsynth(transform)
        else _make_transform_rewrite(transform, has_shots)
        for transform in config.transforms
        if not _is_pass(transform) and _get_name(transform) not in _NOISE_TRANSFORMS
    ]
    if PAULI_TWIRLING in config.passes and not QNodeTransforms(config.transforms).adds_noise:
        rewrites.append(functools.partial(twirl, names_paulis=False))
    folding = trace_state().folding
    if folding is not None and not folding.is_global:
        rewrites.append(lambda ops: _fold_each(ops, folding.n_folds))
    if not rewrites:
        return None

    def rewrite(operations: Operations) -> Operations:
        """Apply all rewrites in order, without queueing new operations."""
        with qml.QueuingManager.stop_recording():
            return functools.reduce(lambda ops, each: each(ops), rewrites, operations)

    return rewrite


def make_rewrite_before_noise(config: CircuitConfig) -> Rewrite | None:
    """Make the function that twirls a QNode's operations before noise is added to them.

    Args:
        config: the QNode's settings, with its passes.

    Returns:
        a function that maps a list of operations to the list with random Paulis; None if the QNode
        has no twirling.
    """
    return functools.partial(twirl, names_paulis=True) if PAULI_TWIRLING in config.passes else None


def _is_pass(transform: Any) -> bool:
    """Return whether a transform consists only of the name of a Bellhop pass.

    Such a transform has no function of tapes. False for the pass ``gridsynth``, which is applied to
    operations during tracing.
    """
    return transform.tape_transform is None and transform.pass_name not in (None, "gridsynth")


def _is_gridsynth(transform: Any) -> bool:
    """Return whether a transform is the pass ``gridsynth``, applied during tracing."""
    return transform.tape_transform is None and transform.pass_name == "gridsynth"


def _make_gridsynth_rewrite(transform: Any) -> Rewrite:
    """Convert the pass ``gridsynth`` to a function of operations, with the pass's options."""
    from bellhop.circuits.passes.gridsynth import decompose_rotations

    return lambda operations: decompose_rotations(operations, **transform.kwargs)


def _get_name(transform: Any) -> str:
    """Return the public name of a transform, such as ``"add_noise"``."""
    name = getattr(transform.tape_transform, "__name__", str(transform))
    return name.removeprefix("_").removesuffix("_transform")


def _is_piecewise(transform: Any) -> bool:
    """Return whether a transform may see a circuit's operations piece by piece.

    A piece is the operations between two loops, conditionals or mid-circuit measurements. True for
    passes, and for transforms whose result for a piece is valid for any gates before and after the
    piece; for ``compile`` only without options.
    """
    if _is_pass(transform) or _is_gridsynth(transform):
        return True
    name = _get_name(transform)
    # The default pipeline of qml.compile is piecewise; a user's pipeline may hold any transform.
    has_options = name == "compile" and bool(transform.args or transform.kwargs)
    return name in _PIECEWISE_TRANSFORMS and not has_options


# Transforms that replace each QubitUnitary by rotations.
_MATRIX_DECOMPOSITIONS = ("decompose", "unitary_to_rot")


def _make_transform_rewrite(transform: Any, has_shots: bool) -> Rewrite:
    """Convert a transform to a function from a list of operations to the transformed list.

    If the transform decomposes matrices, the function adds gates that are the identity, so that the
    circuit has derivatives with respect to traced matrices.

    Args:
        transform: a PennyLane transform that may see each piece of a circuit alone, by
            `_is_piecewise`.
        has_shots: whether the circuit has shots; the added gates then are Pauli rotations, not
            ``QubitUnitary``, which devices with shots cannot apply.
    """
    apply, name = _make_tape_rewrite(transform), _get_name(transform)
    if name not in _MATRIX_DECOMPOSITIONS:
        return apply
    return keep_derivatives(apply, name, has_shots=has_shots)


def _keep_matrix_derivatives(transform: Any, has_shots: bool) -> Any:
    """Make one transform differentiable with respect to traced matrices.

    Args:
        transform: PennyLane's ``BoundTransform``.
        has_shots: whether the circuit has shots, so that its device applies no matrices.

    Returns:
        a changed transform with the same arguments; ``transform`` itself if it does not decompose
        matrices.
    """
    if _get_name(transform) not in _MATRIX_DECOMPOSITIONS:
        return transform
    rewrite = _make_transform_rewrite(transform, has_shots)

    @functools.wraps(transform.tape_transform)
    def decompose(tape: Any, *_: Any, **__: Any) -> Any:
        """Apply the differentiable rewrite to a tape's operations, as a PennyLane transform."""
        return (tape.copy(operations=rewrite(tape.operations)),), lambda results: results[0]

    return type(transform)(decompose, transform.args, transform.kwargs)


def _make_tape_rewrite(transform: Any) -> Rewrite:
    """Convert a PennyLane transform of tapes to a function of operations.

    The function applies the transform, which must return one tape, to a tape of the operations
    without measurements. Its errors get the transform's name as a note.
    """
    function = transform.tape_transform

    def apply(operations: Operations) -> Operations:
        """Apply the transform to a tape of the operations; return the new tape's operations."""
        tape = qml.tape.QuantumScript(operations)
        with qml.QueuingManager.stop_recording(), QNodeTransforms([transform]).note_errors():
            (changed,), _ = function(tape, *transform.args, **transform.kwargs)
        return list(changed.operations)

    return apply


@dataclass(frozen=True)
class Folding:
    """How circuits are folded: ``G`` becomes ``G G^-1 G``, which scales its noise.

    While circuits for zero-noise extrapolation (``mitigate_with_zne``) are traced, an instance is
    the current folding, set by `fold_circuits`.

    Attributes:
        n_folds: the number of pairs of inverse and original that are appended.
        is_global: True to fold the circuit as a whole, False to fold each gate.
    """

    n_folds: int
    is_global: bool

    @staticmethod
    def fold_circuits(scale: int, folding: str) -> AbstractContextManager[None]:
        """Fold all circuits that are traced in the ``with`` block.

        Args:
            scale: an odd integer, the factor by which folding multiplies the number of gates.
            folding: ``"global"`` to fold each circuit as a whole; any other string to fold each
                gate.
        """
        return override_trace_state(folding=Folding((scale - 1) // 2, folding == "global"))

    @staticmethod
    def count_global_folds() -> int:
        """Return the current number of global folds, 0 outside `fold_circuits`."""
        folding = trace_state().folding
        return folding.n_folds if folding is not None and folding.is_global else 0


def _fold(operations: Operations, folding: Folding) -> Operations:
    """Fold a tape's operations as a whole or each gate, as `Folding` describes.

    State preparations are not folded.

    Returns:
        for one fold of ``[A, B]``: ``[A, B, B^-1, A^-1, A, B]`` if the folding is global, else
        ``[A, A^-1, A, B, B^-1, B]``.
    """
    # Not lazy: noise models find gates by name, and an inverse such as RX(-x) has the gate's name.
    if not folding.is_global:
        return _fold_each(operations, folding.n_folds, is_lazy=False)
    gates = [op for op in operations if not OperationKind.classify(op).is_preparation]
    undone = [qml.adjoint(op, lazy=False) for op in reversed(gates)]
    return [*operations, *(undone + gates) * folding.n_folds]


def _fold_each(operations: Operations, n_folds: int, *, is_lazy: bool = True) -> Operations:
    """Append the inverse of each gate and the gate itself after it, ``n_folds`` times.

    State preparations are not folded.

    Args:
        operations: PennyLane operations, in order.
        n_folds: the number of pairs of inverse and gate.
        is_lazy: whether an inverse is a symbolic ``Adjoint``, as by ``qml.adjoint(op, lazy=True)``.

    Returns:
        for one fold of ``[A, B]``: ``[A, A^-1, A, B, B^-1, B]``.
    """
    folded: list[Any] = []
    for op in operations:
        folded.append(op)
        if not OperationKind.classify(op).is_preparation:
            with qml.QueuingManager.stop_recording():
                folded += [qml.adjoint(op, lazy=is_lazy), op] * n_folds
    return folded
