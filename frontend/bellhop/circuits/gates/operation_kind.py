"""Classify the operations that backends treat differently from gates.

``OperationKind.classify(qml.BitFlip(0.1, 0))`` is ``OperationKind.CHANNEL``.
"""

import enum
import functools
from typing import Any

import pennylane as qml


class OperationKind(enum.Enum):
    """Kinds of operations that backends treat differently, such as preparations and channels.

    The class of an operation decides; a subclass has the kind of its base class. The value of each
    enum member is a string that describes its operations.
    """

    IGNORED = "no effect"
    SNAPSHOT = "a value that PennyLane's devices record"
    GLOBAL_PHASE = "a factor of all amplitudes"
    BASIS_STATE = "prepares a basis state"
    STATE_PREPARATION = "prepares any other pure state"
    DENSITY_MATRIX = "prepares a density matrix"
    CHANNEL = "has Kraus operators"
    GATE = "has a matrix or a decomposition"

    @classmethod
    def classify(cls, op: qml.operation.Operator) -> "OperationKind":
        """Return the kind of an operation.

        Args:
            op: PennyLane operation. A symbolic operation (``qml.adjoint``, ``qml.ctrl``) is always
                a ``GATE``.
        """
        cls_of_op: Any = type(op)
        return _classify_class(cls_of_op)

    @property
    def is_preparation(self) -> bool:
        """Whether the operation prepares a pure or mixed state, so that it has no inverse."""
        return self.is_pure_preparation or self is OperationKind.DENSITY_MATRIX

    @property
    def is_pure_preparation(self) -> bool:
        """Whether the operation prepares a pure state."""
        return self in (OperationKind.BASIS_STATE, OperationKind.STATE_PREPARATION)


# In this order: a basis state is a state preparation too.
_CLASSES: tuple[tuple[Any, OperationKind], ...] = (
    ((qml.Identity, qml.ops.Barrier, qml.ops.WireCut), OperationKind.IGNORED),
    (qml.Snapshot, OperationKind.SNAPSHOT),
    (qml.GlobalPhase, OperationKind.GLOBAL_PHASE),
    (qml.BasisState, OperationKind.BASIS_STATE),
    (qml.operation.StatePrepBase, OperationKind.STATE_PREPARATION),
    (qml.QubitDensityMatrix, OperationKind.DENSITY_MATRIX),
    (qml.operation.Channel, OperationKind.CHANNEL),
)


@functools.cache
def _classify_class(cls: Any) -> OperationKind:
    """Return the kind of the operations of a class."""
    return next((kind for bases, kind in _CLASSES if issubclass(cls, bases)), OperationKind.GATE)
