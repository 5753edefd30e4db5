"""Get and replace all parameters of an operator, including the generator of an evolution.

PennyLane's ``Evolution.data`` has only the time, but ``bind_new_parameters`` of an evolution also
expects the generator's coefficients.  Here an evolution counts as an exponential, which has both::

    op = qml.evolve(0.5 * qml.X(0), 0.3)      # op.data is (0.3,)
    get_parameters(op)                         # (-0.3j, 0.5)
    replace_parameters(op, (-0.6j, 0.5))         # exp(-0.6j * 0.5 X)
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import pennylane as qml
from pennylane.ops.functions import bind_new_parameters


def get_parameters(op: qml.operation.Operator) -> tuple[Any, ...]:
    """Return all parameters of an operator, in the order of ``replace_parameters``."""
    return tuple(_expand_evolutions(op).data)


def replace_parameters(op: qml.operation.Operator, parameters: Sequence[Any]) -> Any:
    """Return an operator with new parameters, or ``op`` itself if all are identical.

    Args:
        op: the operator.
        parameters: the new parameters, in the order of `get_parameters`.
    """
    expanded = _expand_evolutions(op)
    if all(new is old for new, old in zip(parameters, expanded.data, strict=True)):
        return op
    with qml.QueuingManager.stop_recording():
        return bind_new_parameters(expanded, parameters)


def _expand_evolutions(op: qml.operation.Operator) -> Any:
    """Replace evolutions by exponentials, whose ``data`` has all parameters."""
    # Fast path: most operators are Pauli words, or gates with plain parameters.
    kind: Any = type(op)
    if not op.data or _has_plain_data(kind) or op.pauli_rep is not None:
        return op
    if op._flatten()[0] is op.data or not any(
        map(_has_hidden_data, jax.tree.leaves(op, is_leaf=_has_hidden_data))
    ):
        return op
    with qml.QueuingManager.stop_recording():
        return jax.tree.map(
            lambda leaf: _to_exponential(leaf) if _has_hidden_data(leaf) else leaf,
            op,
            is_leaf=_has_hidden_data,
        )


@functools.cache
def _has_plain_data(kind: Any) -> bool:
    """Return whether an operator class keeps all its parameters in ``data``."""
    return kind._flatten is qml.operation.Operator._flatten


def _has_hidden_data(leaf: Any) -> bool:
    return isinstance(leaf, qml.ops.Evolution) and bool(leaf.base.data)


def _to_exponential(op: qml.ops.Evolution) -> qml.ops.Exp:
    return qml.ops.Exp(_expand_evolutions(op.base), -1j * op.param)
