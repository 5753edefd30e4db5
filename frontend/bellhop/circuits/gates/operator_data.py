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
import jax.numpy as jnp
import pennylane as qml
from pennylane.ops.functions import bind_new_parameters

from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.errors import CompileError


def get_parameters(op: qml.operation.Operator) -> tuple[Any, ...]:
    """Return all parameters of an operator, in the order of ``replace_parameters``.

    An evolution, also inside the operator, counts as the exponential ``exp(-i t G)``, so it has the
    parameters ``-i t`` and the coefficients of its generator ``G``.
    """
    return tuple(_expand_evolutions(op).data)


def replace_parameters(op: qml.operation.Operator, parameters: Sequence[Any]) -> Any:
    """Copy an operator with new parameters, in the order of `get_parameters`.

    Args:
        op: PennyLane operator.
        parameters: the new parameters.

    Returns:
        the copy, in which an evolution whose generator has parameters is an exponential
        (``qml.exp``); ``op`` itself if all parameters are identical objects.
    """
    expanded = _expand_evolutions(op)
    if all(new is old for new, old in zip(parameters, expanded.data, strict=True)):
        return op
    with qml.QueuingManager.stop_recording():
        return bind_new_parameters(expanded, parameters)


def _expand_evolutions(op: qml.operation.Operator) -> Any:
    """Replace evolutions in an operator by exponentials, whose data has all parameters.

    The operator is an evolution or has evolutions nested in it. Only evolutions whose generators
    have parameters are replaced.

    Returns:
        an equal operator; ``op`` itself if there is nothing to replace.
    """
    # Fast path: most operators are Pauli words, or gates with plain parameters.
    kind: Any = type(op)
    if not op.data or _has_plain_data(kind) or op.pauli_rep is not None:
        return op
    if op._flatten()[0] is op.data or not any(
        map(_is_parametrized_evolution, jax.tree.leaves(op, is_leaf=_is_parametrized_evolution))
    ):
        return op
    with qml.QueuingManager.stop_recording():
        return jax.tree.map(
            lambda leaf: _to_exponential(leaf) if _is_parametrized_evolution(leaf) else leaf,
            op,
            is_leaf=_is_parametrized_evolution,
        )


@functools.cache
def _has_plain_data(kind: Any) -> bool:
    """Return whether ``data`` of an operator class has all parameters of the operator."""
    return kind._flatten is qml.operation.Operator._flatten


def _is_parametrized_evolution(leaf: Any) -> bool:
    """Return whether an object is an evolution whose generator has parameters."""
    return isinstance(leaf, qml.ops.Evolution) and bool(leaf.base.data)


def _to_exponential(op: qml.ops.Evolution) -> qml.ops.Exp:
    """Convert an evolution with the time ``t`` to ``exp(-i t generator)``."""
    return qml.ops.Exp(_expand_evolutions(op.base), -1j * op.param)


def select_row(op: qml.operation.Operator, row: TracedRow) -> Any:
    """Select one row of a batched operation: ``RX(x)`` becomes ``RX(x[index])``.

    The batch size is registered in ``row.rows``.

    Args:
        op: PennyLane operation, with or without a batch.
        row: the batch row, with a traced index.

    Raises:
        CompileError: for an empty batch, for a batch size that differs from an earlier
            operation's, and for parameters with a wrong number of dimensions.

    Returns:
        a copy of the operation with the entries of the row; ``op`` itself without a batch.
    """
    try:
        size = op.batch_size
    except ValueError as error:
        problem = str(error).removeprefix(f"{op.name}: ")
        raise CompileError(f"{row.rows.where}: {op.name}: {problem}") from None
    if size is None:
        return op
    if size == 0:
        raise CompileError(
            f"{row.rows.where}: {op.name} has a batch of 0 parameters, expected at least 1. Pass "
            "an array that is not empty."
        )
    row.rows.register_batch(size, op.name)
    with qml.QueuingManager.stop_recording():
        return _select_in_operands(op, row.index)


def _select_parameters(op: qml.operation.Operator, index: Any) -> Any:
    """Select one batch row of a gate's parameters: ``RX(x)`` becomes ``RX(x[index])``.

    Args:
        op: PennyLane gate without operands, such as a rotation, or a controlled gate such as CRX.
        index: the row index, a traced int32 scalar.
    """
    params = [
        jnp.asarray(value)[index] if jnp.ndim(value) > ndim else value
        for value, ndim in zip(op.data, op.ndim_params, strict=True)
    ]
    selected = bind_new_parameters(op, params)
    _reset_batch_size(selected)
    return selected


def _select_in_operands(op: qml.operation.Operator, index: Any) -> Any:
    """Select one batch row of the parameters of an operator and of its operands.

    ``qml.evolve(x * qml.X(0) + qml.Z(0), t)`` becomes ``qml.evolve(x[index] * qml.X(0) + qml.Z(0),
    t[index])``. All operators with operands are created again, because PennyLane caches their batch
    sizes.

    Args:
        op: PennyLane gate, or an operator that is built from operators, such as a sum or an
            exponential.
        index: the row index, a traced int32 scalar.
    """

    def is_scaled(leaf: Any) -> bool:
        """Return whether an object is an operator with a coefficient: ``Exp`` or ``SProd``."""
        return isinstance(leaf, qml.ops.Exp | qml.ops.SProd)

    def is_gate(leaf: Any) -> bool:
        """Return whether an object is a gate without operands, such as RX and CRX."""
        return isinstance(leaf, qml.operation.Operation) and not any(
            isinstance(child, qml.operation.Operator) for child in leaf._flatten()[0]
        )

    def select(leaf: Any) -> Any:
        """Select the batch row ``index`` of a gate, or of an operator with a coefficient.

        Gates without a batch, and all other objects, are returned unchanged.

        Args:
            leaf: an operand of the operator: its tree is flattened down to gates, operators with a
                coefficient, and arrays.
        """
        if is_gate(leaf):
            return leaf if leaf.batch_size is None else _select_parameters(leaf, index)
        if not is_scaled(leaf):
            return leaf
        scalar = leaf.data[0]
        scalar = jnp.asarray(scalar)[index] if jnp.ndim(scalar) else scalar
        base = _select_in_operands(leaf.base, index)
        if isinstance(leaf, qml.ops.SProd):
            return qml.s_prod(scalar, base)
        return type(leaf)(base, scalar)

    return jax.tree.map(select, op, is_leaf=lambda leaf: is_scaled(leaf) or is_gate(leaf))


def _reset_batch_size(op: qml.operation.Operator) -> None:
    """Recompute the cached batch size of an operation whose parameters were replaced."""
    while isinstance(op, qml.ops.SymbolicOp):
        op = op.base
    op._check_batching()
