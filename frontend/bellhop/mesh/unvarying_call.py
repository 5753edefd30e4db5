"""Calls inside of ``jax.shard_map`` of functions that are traced without varying axes.

The derivatives of a circuit are jaxprs that are traced once, with types without varying axes.  JAX
cannot evaluate them on values with varying axes, since it requires equal axes of both operands of
each equation.  So such a function becomes one equation ::

    y_dot = bellhop_apart_from_axes[
      closed={ lambda ; jacobian x_dot. let y_dot = mul jacobian x_dot in (y_dot,) }
    ] jacobian x_dot

whose results, and cotangents, vary over all axes over which an operand varies.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from bellhop._jax.jaxprs import dce, jvp_jaxpr
from bellhop.base.types import Aval, Operand, to_structs
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero
from bellhop.mesh.explicit_mesh import leave_mesh
from bellhop.mesh.manual_axes import has_varying, vary_like, vary_types_like

_call_p = Primitive("bellhop_apart_from_axes")
_call_p.multiple_results = True


def wrap_unvarying(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """Wrap a function so that it is traced without varying axes of ``shard_map``.

    If an argument has varying axes, the call becomes one equation, whose jaxpr has types without
    varying axes. So the function may evaluate jaxprs that were traced outside of ``jax.shard_map``.

    Args:
        function: takes pytrees of arrays, returns a sequence of arrays.

    Returns:
        a function with the same arguments, which returns a list of arrays.
    """

    def call(*args: Any) -> list[Any]:
        """Call the function, as one equation if an argument has varying axes.

        The results then vary over all axes over which an argument varies.
        """
        if not has_varying(args):
            return list(function(*args))
        leaves, tree = jax.tree.flatten(args)
        types = list(map(jax.typeof, leaves))
        # XLA of JAX 0.11 aborts the process if jax.shard_map splits an empty array.
        operands = [leaf for leaf, type_ in zip(leaves, types, strict=True) if type_.size]

        def evaluate_operands(*operands: Any) -> Sequence[Any]:
            """Call the wrapped function with its arguments, given their leaves.

            Args:
                *operands: the leaves with at least one element; empty arrays are created here.
            """
            rest = iter(operands)
            all_leaves = [
                next(rest) if type_.size else jnp.zeros(type_.shape, type_.dtype) for type_ in types
            ]
            return function(*tree.unflatten(all_leaves))

        with leave_mesh(operands) as plain:
            closed = jax.make_jaxpr(evaluate_operands)(*plain)
        return _call_p.bind(*vary_like(operands, operands), closed=closed)

    return call


@_call_p.def_impl
def _evaluate(*operands: Operand, closed: ClosedJaxpr) -> list[Any]:
    """Evaluate the jaxpr outside of traces: the primitive's impl rule."""
    return list(jax.jit(jaxpr_as_fun(closed))(*operands))


@_call_p.def_abstract_eval
def _abstract_eval(*avals: Aval, closed: ClosedJaxpr) -> list[Any]:
    """Return the jaxpr's result types, with the varying axes of all operands."""
    return vary_types_like(avals, closed.out_avals)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, closed: ClosedJaxpr
) -> tuple[list[Any], list[Any]]:
    """JVP rule: bind the primitive for the results, and once more for their tangents.

    Tangents of operands and results may be symbolic zeros.

    Returns:
        the results and their tangents.
    """
    has_tangent = [type(tangent) is not ad.Zero for tangent in tangents]
    jvp, has_result_tangent = jvp_jaxpr(closed, has_tangent, instantiate=False)
    nonzero_tangents = [tangent for tangent, yes in zip(tangents, has_tangent, strict=True) if yes]
    # Separate from the results, which vmap would otherwise batch if only tangents are mapped.
    is_tangent = [False] * len(has_result_tangent) + [True] * sum(has_result_tangent)
    tangent, _ = dce(jvp, is_tangent, [True] * len(jvp.in_avals))
    results = _call_p.bind(*primals, closed=closed)
    result_tangents = iter(_call_p.bind(*primals, *nonzero_tangents, closed=tangent))
    return results, [
        next(result_tangents) if yes else make_symbolic_zero(result)
        for result, yes in zip(results, has_result_tangent, strict=True)
    ]


def _transpose(cotangents: Sequence[Any], *operands: Operand, closed: ClosedJaxpr) -> list[Any]:
    """Transpose rule: transpose the jaxpr, as a function of the linear operands.

    Args:
        cotangents: cotangents of the results, some of them symbolic zeros.
        *operands: arrays, or ``UndefinedPrimal`` for linear operands.
        closed: jaxpr of the function.

    Returns:
        for each operand its cotangent, or None if it is not linear.
    """
    linear = list(map(ad.is_undefined_primal, operands))
    likes = to_structs(itertools.compress(closed.in_avals, linear))

    def transpose(known: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """Return the cotangents of the linear operands, at values of the known operands."""

        def linear_function(*linear_inputs: Any) -> list[Any]:
            """Evaluate the jaxpr with the known operands and these linear operands."""
            rest, known_inputs = iter(linear_inputs), iter(known)
            inputs = [next(rest) if yes else next(known_inputs) for yes in linear]
            return eval_jaxpr(closed.jaxpr, closed.consts, *inputs)

        return jax.linear_transpose(linear_function, *likes)(list(cotangents))

    known = [operand for operand, yes in zip(operands, linear, strict=True) if not yes]
    found = iter(wrap_unvarying(transpose)(known, list(map(ad.instantiate_zeros, cotangents))))
    return [next(found) if yes else None for yes in linear]


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, closed: ClosedJaxpr
) -> tuple[list[Any], list[int]]:
    """Batching rule: ``vmap`` the jaxpr; the batch axis of each result is 0."""
    results = wrap_unvarying(jax.vmap(jaxpr_as_fun(closed), tuple(dims)))(*operands)
    return results, [0] * len(results)


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, closed: ClosedJaxpr) -> Any:
    """Lowering rule: call an MLIR function of the jaxpr; return its MLIR values."""
    return mlir.core_call_lowering(ctx, *operands, name="apart_from_axes", call_jaxpr=closed)


ad.primitive_jvps[_call_p] = _jvp
ad.primitive_transposes[_call_p] = _transpose
batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, _lower)
