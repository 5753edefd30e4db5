"""A batch: many circuits of the same operations, each with parameters of its own, in one.

``vmap`` of a circuit makes one.  Its body is mapped as any function is, but for the handle of the
state, which stays one for all rows: gates get an axis of rows in their parameters, and the
runtime runs the rows when they are measured, on several threads.  What makes rows apply other
gates (a condition or a number of iterations that is mapped) maps the handle too, and that is what
tells such circuits: these run one after another.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import batching

from bellhop._jax.private import without_mesh
from bellhop.base.equations import evaluate, read
from bellhop.circuits.derivatives.dynamic_count import reads_the_session
from bellhop.circuits.operations.measurement_primitives import (
    jacobian_p,
    measure_p,
    measure_with_jacobian_p,
    replay_jacobian_p,
    replay_p,
)
from bellhop.circuits.operations.state_primitives import HANDLE, gates_p

# The parameters of so many numbers are held at once: 64 MiB.
_NUMBERS_IN_ONE_CALL = 1 << 23

_HANDLE_STRUCT = jax.ShapeDtypeStruct(HANDLE.shape, HANDLE.dtype)


@dataclass(frozen=True)
class Batch:
    """The rows of a circuit.

    Attributes:
        rows: how many there are.
        mapped: for each input, whether it has an axis of rows in front.
    """

    rows: int
    mapped: tuple[bool, ...]

    @property
    def axes(self) -> list[int | None]:
        """The mapped axis of each input, as ``jax.vmap`` takes it."""
        return [0 if mapped else None for mapped in self.mapped]


def batched(
    batch: Batch | None, operands: Sequence[Any], dims: Sequence[int | None]
) -> tuple[Batch, list[Any]]:
    """Return the batch of all elements of a mapped axis, and its inputs.

    A batch of batches is one batch, whose rows are those of the first element, of the second, ...

    Args:
        batch: the rows of each element, if it has any.
        operands: inputs with the mapped axis.
        dims: where that is in each of them.
    """
    size = next(
        operand.shape[dim] for operand, dim in zip(operands, dims, strict=True) if dim is not None
    )
    if batch is None:
        inputs = [
            operand if dim is None else jnp.moveaxis(operand, dim, 0)
            for operand, dim in zip(operands, dims, strict=True)
        ]
        return Batch(size, tuple(dim is not None for dim in dims)), inputs
    of_batch = list(zip(operands, dims, batch.mapped, strict=True))
    flat = []
    for operand, dim, is_of_rows in of_batch:
        if dim is None and not is_of_rows:
            flat.append(operand)
            continue
        outer = jnp.expand_dims(operand, 0) if dim is None else jnp.moveaxis(operand, dim, 0)
        both = outer if is_of_rows else jnp.expand_dims(outer, 1)
        rest = both.shape[2:]
        both = jnp.broadcast_to(both, (size, batch.rows, *rest))
        flat.append(both.reshape(size * batch.rows, *rest))
    mapped = tuple(is_of_rows or dim is not None for _, dim, is_of_rows in of_batch)
    return Batch(size * batch.rows, mapped), flat


class RowsDivergeError(Exception):
    """Rows of a batch apply other gates."""


def rows_together(closed: ClosedJaxpr, batch: Batch) -> ClosedJaxpr | None:
    """Return the jaxpr of a whole batch; None where its rows cannot run together.

    Args:
        closed: that of a row, from handle and inputs to handle and results.
        batch: the rows.
    """
    if reads_the_session(closed):
        # Each row has a session of its own then.
        return None
    row = functools.partial(_run_row, closed)

    def run(handle: Any, *inputs: Any) -> Any:
        out_axes = [None] + [0] * (len(closed.out_avals) - 1)
        mapped = jax.vmap(row, in_axes=(None, 0, *batch.axes), out_axes=out_axes)
        return mapped(handle, jnp.arange(batch.rows, dtype=jnp.int32), *inputs)

    structs = [
        jax.ShapeDtypeStruct((batch.rows, *aval.shape) if mapped else aval.shape, aval.dtype)
        for aval, mapped in zip(closed.in_avals[1:], batch.mapped, strict=True)
    ]
    try:
        with without_mesh():
            return jax.make_jaxpr(run)(_HANDLE_STRUCT, *structs)
    except RowsDivergeError:
        return None


def rows_at_once(closed: ClosedJaxpr) -> int:
    """Return how many rows one call may have, so that their parameters take little memory."""
    numbers = max(
        (eqn.invars[3].aval.size for eqn in closed.jaxpr.eqns if eqn.primitive is measure_p),
        default=0,
    )
    return max(1, _NUMBERS_IN_ONE_CALL // max(1, numbers))


def map_in_parts(function: Any, batch: Batch, inputs: Sequence[Any], rows: int) -> Any:
    """Call a function of one row for all rows, ``rows`` of them at a time.

    Args:
        function: takes the inputs of a row, or mapped those of several.
        batch: all rows.
        inputs: those of the batch.
        rows: 1 to run them one after another.
    """
    mapped = [value for value, yes in zip(inputs, batch.mapped, strict=True) if yes]

    def call(elements: Sequence[Any]) -> Any:
        element = iter(elements)
        return function(
            *(
                next(element) if yes else value
                for value, yes in zip(inputs, batch.mapped, strict=True)
            )
        )

    return jax.lax.map(call, mapped, batch_size=None if rows == 1 else rows)


def _run_row(closed: ClosedJaxpr, handle: Any, row: Any, *inputs: Any) -> list[Any]:
    """Run a circuit of one row; what is measured of it belongs to that row."""
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, (handle, *inputs), strict=True))
    differentiated = {
        eqn.invars[0]: eqn.params["measurements"]
        for eqn in jaxpr.eqns
        if eqn.primitive is jacobian_p
    }
    jacobians: dict[Any, Any] = {}
    of = functools.partial(read, values=values)
    for is_special, group in itertools.groupby(jaxpr.eqns, _is_special):
        if not is_special:
            evaluate(jaxpr, list(group), values)
            continue
        for eqn in group:
            operands = list(map(of, eqn.invars))
            before, after = eqn.invars[0], eqn.outvars[0]
            # Without parameters that are mapped, all rows would be measured as one.
            operands[3] = jax.lax.select(row >= 0, operands[3], operands[3])
            if eqn.primitive is jacobian_p:
                if before not in jacobians:
                    raise RowsDivergeError
                results = [operands[0], jacobians[before]]
            elif differentiated.get(after) == eqn.params["measurements"]:
                # The circuit is gone when it is measured, so its derivative is taken then.
                *results, jacobians[after] = measure_with_jacobian_p.bind(*operands, **eqn.params)
            else:
                results = eqn.primitive.bind(*operands, **eqn.params)
            values.update(zip(eqn.outvars, results, strict=True))
    return list(map(of, jaxpr.outvars))


def _is_special(eqn: Any) -> bool:
    return eqn.primitive is jacobian_p or eqn.primitive in _MEASURING


_MEASURING = (measure_p, replay_p, replay_jacobian_p)


def _rows_first(
    operands: Sequence[Any], dims: Sequence[int | None], *, shared: Sequence[int] = (0,)
) -> list[Any]:
    """Return operands with the axis of rows in front.

    Raises:
        RowsDivergeError: where one that all rows share is mapped.
    """
    if any(dims[number] is not None for number in shared):
        raise RowsDivergeError
    return [
        operand if dim is None else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands, dims, strict=True)
    ]


def _gates_of_rows(
    operands: Sequence[Any], dims: Sequence[int | None], **params: Any
) -> tuple[Any, None]:
    shared = (0, 2, *range(4, len(operands)))
    return gates_p.bind(*_rows_first(operands, dims, shared=shared), **params), None


def _measure_rows(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[int | None], **params: Any
) -> tuple[list[Any], list[int | None]]:
    shared = (0, *range(4, len(operands)))
    handle, coefficients, matrices, *rest = _rows_first(operands, dims, shared=shared)
    if dims[1] is not None or dims[2] is not None:
        # They become the data of the observables, one vector.
        rows = rest[0].shape[0]
        coefficients, matrices = (
            value if dim is not None else jnp.broadcast_to(value, (rows, *value.shape))
            for value, dim in ((coefficients, dims[1]), (matrices, dims[2]))
        )
    results = primitive.bind(handle, coefficients, matrices, *rest, **params)
    return results, [None] + [0] * (len(results) - 1)


batching.primitive_batchers[gates_p] = _gates_of_rows
for _primitive in (*_MEASURING, measure_with_jacobian_p):
    batching.primitive_batchers[_primitive] = functools.partial(_measure_rows, _primitive)


def of_rows(aval: Any, batch: Batch | None) -> ShapedArray:
    """Return the type of a result of all rows."""
    if batch is None:
        return aval
    return ShapedArray((batch.rows, *aval.shape), np.dtype(aval.dtype))
