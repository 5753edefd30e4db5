"""Batch circuits: ``vmap`` of a circuit, whose rows apply the same gates.

With the QNode ``g`` of ``recorded_gates`` and three elements in ``x``, ``jax.vmap(g)(x)`` is
traced to a circuit whose body is the body of one row::

    values = quantum_circuit[body={ lambda ; state x:f64[]. let ... } batch=Batch(3, (True,))] x

When the circuit is lowered, ``vectorize_rows`` maps this body over ``x``, but not over the handle
of the state::

    { lambda ; state:u32[2] x:f64[3]. let
        angles = mul 2.0 x
        params = broadcast_in_dim angles                                    f64[3,1]
        state = quantum_gates[(RX, RY(0.5))] state params 0 []
        state values = quantum_measure[(Expval(Z),)] state [] [] params     f64[3]
      in (state, values) }

The runtime records the gates until the batch is measured.  Then it runs the rows on several
threads.

If a predicate or the trip count of a loop with gates depends on the row, rows apply different
gates, and ``vmap`` would map the handle too.  Such rows run one after another.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import cond_p, while_p
from jax.interpreters import batching

from bellhop._jax.jaxprs import bind_equation
from bellhop._jax.private import without_mesh
from bellhop.base.types import Handle, Operand
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import has_session_reads
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasureOperands,
    derivative_p,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    HANDLE_STRUCT,
    GateOperands,
    gates_p,
    is_call,
    is_handle,
    to_rows,
)
from bellhop.jaxprs.equations import find_dependents, inner_jaxprs, iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import interpret

# The largest number of parameters of all rows that run together: 64 MiB.
_MAX_PARAMS_PER_CALL = 1 << 23


@dataclass(frozen=True)
class Batch:
    """The rows of a batched circuit, a static parameter of the circuit primitive.

    A row is one element of the axes over which ``jax.vmap`` maps the circuit.

    Attributes:
        size: the number of rows.
        is_mapped: for each input of the circuit, whether its leading axis is the axis of rows.
    """

    size: int
    is_mapped: tuple[bool, ...]

    @property
    def axes(self) -> list[int | None]:
        """The ``in_axes`` of ``jax.vmap`` for the inputs."""
        return [0 if mapped else None for mapped in self.is_mapped]


def merge_batch(
    batch: Batch | None, operands: Sequence[Operand], dims: Sequence[int | None]
) -> tuple[Batch, list[Any]]:
    """Merge an axis that ``jax.vmap`` maps with the rows of a circuit into one leading axis.

    If the circuit has rows from an inner ``vmap`` already, row ``r`` of element ``e`` of the mapped
    axis gets the index ``e * batch.size + r``.

    Args:
        batch: the rows that the circuit has already; None if it is not batched yet.
        operands: the inputs of the circuit.
        dims: for each input, the position of the mapped axis, or None; at least one is not None.

    Returns:
        the batch of all rows; and the inputs, where each mapped input has the axis of all rows in
        front.
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
    all_operands = list(zip(operands, dims, batch.is_mapped, strict=True))
    flat = []
    for operand, dim, has_rows in all_operands:
        if dim is None and not has_rows:
            flat.append(operand)
            continue
        outer = jnp.expand_dims(operand, 0) if dim is None else jnp.moveaxis(operand, dim, 0)
        rows = outer if has_rows else jnp.expand_dims(outer, 1)
        rest = rows.shape[2:]
        rows = jnp.broadcast_to(rows, (size, batch.size, *rest))
        flat.append(rows.reshape(size * batch.size, *rest))
    mapped = tuple(has_rows or dim is not None for _, dim, has_rows in all_operands)
    return Batch(size * batch.size, mapped), flat


def has_row_dependent_effects(closed: ClosedJaxpr, mapped: Sequence[bool]) -> bool:
    """Return whether a circuit has effects, such as callbacks, that depend on the row.

    Rows are the elements of the axis over which ``jax.vmap`` maps the circuit. If True, the rows
    must run one by one, to keep the order of effects. An equation with effects that does not depend
    on the row runs once for the batch.

    Args:
        closed: the jaxpr of a row, from state handle and inputs to state handle and results.
        mapped: for each input (without the handle), whether it depends on the row.
    """
    _, equations = find_dependents(closed.jaxpr, [False, *mapped])
    return any(eqn.effects for eqn in equations)


def _has_diverging_rows(closed: ClosedJaxpr, batch: Batch) -> bool:
    """Return whether rows of a batched circuit may execute different gates or measurements.

    True if gates or measurements are in a conditional or a ``while`` loop whose predicate may
    depend on the row, or if the wire of a mid-circuit measurement does. Parameters of gates may
    differ. All rows have the same mid-circuit outcomes; see ``outcome_tree``.

    Args:
        closed: the jaxpr of a row, from state handle and inputs to state handle and results.
        batch: which inputs differ between rows.
    """
    on_state = [
        eqn
        for eqn in iterate_equations(closed.jaxpr)
        if eqn.primitive in (gates_p, measure_p, derivative_p) or is_call(eqn)
    ]
    # Gates whose parameters depend on the row still return one handle for all rows.
    handles = {var for eqn in on_state for var in eqn.outvars if is_handle(var.aval)}
    inputs = [False, *batch.is_mapped]
    _, equations = find_dependents(closed.jaxpr, inputs, lambda var: var not in handles)
    if any(is_call(eqn, "mid_measure") for eqn in equations):
        return True
    row_dependent = (eqn for eqn in equations if eqn.primitive in (cond_p, while_p))
    inside = {
        id(inner)
        for eqn in row_dependent
        for part in inner_jaxprs(eqn)
        for inner in iterate_equations(part)
    }
    return any(id(eqn) in inside for eqn in on_state)


def vectorize_rows(closed: ClosedJaxpr, batch: Batch) -> ClosedJaxpr | None:
    """Map the jaxpr of one row of a batched circuit over all rows, if rows can run together.

    Args:
        closed: the jaxpr of a row, from state handle and inputs to state handle and results.
        batch: the number of rows, and which inputs differ between rows.

    Returns:
        the jaxpr of the batch, with one handle for all rows and results with rows in front; None if
        rows must run one by one, because they apply different gates, or because the runtime must
        keep derivatives for each row separately.
    """
    # A circuit that reads derivatives from its session needs a separate session for each row.
    if has_session_reads(closed) or _has_diverging_rows(closed, batch):
        return None
    row = functools.partial(_run_row, closed)

    def run(handle: Handle, *inputs: Any) -> Any:
        """Evaluate the jaxpr of a row for all rows, with one handle; see `vectorize_rows`."""
        out_axes = [None] + [0] * (len(closed.out_avals) - 1)
        mapped = jax.vmap(row, in_axes=(None, 0, *batch.axes), out_axes=out_axes)
        return mapped(handle, jnp.arange(batch.size, dtype=jnp.int32), *inputs)

    structs = [
        jax.ShapeDtypeStruct((batch.size, *aval.shape) if mapped else aval.shape, aval.dtype)
        for aval, mapped in zip(closed.in_avals[1:], batch.is_mapped, strict=True)
    ]
    with without_mesh():
        return jax.make_jaxpr(run)(HANDLE_STRUCT, *structs)


def count_rows_per_call(closed: ClosedJaxpr) -> int:
    """Return how many rows of a batched circuit one call of the runtime may execute.

    The gate parameters and prepared amplitudes of these rows are at most ``_MAX_PARAMS_PER_CALL``
    numbers; the memory of the states is not counted. The result is at least one, and may exceed the
    number of rows.

    Args:
        closed: the jaxpr of a row, whose final measurements have all parameters as operands.
    """
    numbers = max(
        (
            measured.params.aval.size + measured.amplitudes.aval.size
            for eqn in closed.jaxpr.eqns
            if eqn.primitive is measure_p
            for measured in [MeasureOperands.from_equation(eqn)]
        ),
        default=0,
    )
    return max(1, _MAX_PARAMS_PER_CALL // max(1, numbers))


def _run_row(closed: ClosedJaxpr, handle: Handle, row: Any, *inputs: Any) -> list[Any]:
    """Evaluate the jaxpr of a row under ``vmap``, so that all results are mapped.

    Args:
        closed: the jaxpr, from state handle and inputs to state handle and results.
        handle: the handle of the state, not mapped.
        row: the index of the row, which is mapped.
        inputs: the inputs of the row, some of which may be mapped.

    Returns:
        the handle, not mapped, and the results of the row, all mapped.
    """

    def bind_measurement(eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Bind a final measurement or derivative so that ``vmap`` maps it over the rows.

        The gate parameters are made to depend on the mapped index `row`, without changing their
        values. Otherwise ``vmap`` would measure only once if they are equal for all rows.

        Args:
            eqn: an equation of ``measure_p`` or ``derivative_p``.
            operands: the values of the equation's operands.

        Returns:
            the results of the equation.
        """
        named = MeasureOperands.from_names(eqn.params["names"], operands)
        # The parameters may be equal for all rows, and ``vmap`` would then measure only once.
        params = jax.lax.select(row >= 0, named.params, named.params)
        return bind_equation(eqn, *named._replace(params=params).to_dict().values())

    rules = {measure_p: bind_measurement, derivative_p: bind_measurement}
    return interpret(closed, rules, handle, *inputs)


def _move_rows_first(
    operands: Sequence[Operand], dims: Sequence[int | None], shared: Sequence[int | None]
) -> list[Any]:
    """Move the mapped axis of each operand to the front.

    Args:
        operands: arrays.
        dims: the mapped axis of each operand; None for an operand to return unchanged.
        shared: the entries of `dims` for operands that all rows share, such as the handle; asserted
            to be None.
    """
    assert all(dim is None for dim in shared)
    return [
        operand if dim is None else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands, dims, strict=True)
    ]


def _gates_batch(
    operands: Sequence[Operand], dims: Sequence[int | None], **params: Any
) -> tuple[Any, None]:
    """Batching rule of ``quantum_gates``: one equation with rows of parameters and wires.

    Args:
        operands: the fields of `GateOperands`.
        dims: the mapped axis of each operand; None for the handle, the offset and the number of
            iterations.

    Returns:
        the handle, and None, since it is not mapped.
    """
    named_dims = GateOperands(*dims)
    shared = named_dims.handle, named_dims.offset, named_dims.n_iterations
    return gates_p.bind(*_move_rows_first(operands, dims, shared), **params), None


def _measure_batch(
    primitive: Primitive,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    names: Sequence[str],
    **params: Any,
) -> tuple[list[Any], list[int | None]]:
    """Batching rule of ``quantum_measure`` and ``quantum_derivative``: one equation for all rows.

    Args:
        primitive: ``measure_p`` or ``derivative_p``.
        operands: the operands of the equation, fields of `MeasureOperands`.
        dims: the mapped axis of each operand. The operands ``handle``, ``perturbation`` and
            ``basis`` are never mapped; if ``directions`` is mapped, no other operand is.
        names: the name of each operand.
        **params: further parameters of the primitive.

    Returns:
        the results and their mapped axes: None for the handle and for the number of a saved
        derivative, which all rows share, else 0.
    """
    named_dims = MeasureOperands.from_names(names, dims)
    if named_dims.directions is not None:
        return _directions_batch(MeasureOperands.from_names(names, operands), named_dims, **params)
    shared = named_dims.handle, named_dims.perturbation, named_dims.basis
    measured = MeasureOperands.from_names(names, _move_rows_first(operands, dims, shared))
    if named_dims.coefficients is not None or named_dims.matrices is not None:
        # Lowering concatenates both, so if one of them is mapped, the other must be too.
        rows = measured.params.shape[0]
        coefficients, matrices = (
            value if dim is not None else jnp.broadcast_to(value, (rows, *value.shape))
            for value, dim in (
                (measured.coefficients, named_dims.coefficients),
                (measured.matrices, named_dims.matrices),
            )
        )
        measured = measured._replace(coefficients=coefficients, matrices=matrices)
    results = measured.bind(primitive, **params)
    # A result without axes is the number of a saved derivative, which is the same for all rows.
    return results, [None] + [0 if value.ndim else None for value in results[1:]]


def _directions_batch(
    operands: MeasureOperands, dims: MeasureOperands, **params: Any
) -> tuple[list[Any], list[int | None]]:
    """Batching rule of ``quantum_derivative`` whose operand ``directions`` is mapped.

    Each row of ``directions`` gives one directional derivative. So the elements of the mapped axis
    become additional rows of one equation.

    Args:
        operands: the operands of ``derivative_p``.
        dims: the mapped axis of each operand; only ``directions`` may be mapped.

    Returns:
        the results and their mapped axes: the handle (None), the derivative with the mapped axis in
        front (0), and the number of the saved derivative (None).
    """
    assert list(dims.to_dict()) == ["directions"]
    size = operands.directions.shape[dims.directions]
    directions = to_rows(operands.directions, dims.directions, size)
    handle, derivative, saved = operands._replace(directions=directions).bind(
        derivative_p, **params
    )
    return [handle, derivative.reshape(size, -1, *derivative.shape[1:]), saved], [None, 0, None]


batching.primitive_batchers[gates_p] = _gates_batch
for _primitive in (measure_p, derivative_p):
    batching.primitive_batchers[_primitive] = functools.partial(_measure_batch, _primitive)


def add_row_axis(aval: Any, batch: Batch | None) -> ShapedArray:
    """Add a leading axis of rows to the abstract value of one row's result.

    The abstract value is returned unchanged if `batch` is None.
    """
    if batch is None:
        return aval
    return ShapedArray((batch.size, *aval.shape), np.dtype(aval.dtype))
