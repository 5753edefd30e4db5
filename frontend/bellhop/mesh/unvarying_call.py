"""Functions traced as where there is no ``jax.shard_map``, and called where there is one.

The derivative of a circuit is jaxprs that are made once, and whose types tell of no axes.  JAX
cannot evaluate those on values that tell how they differ between devices: it asks for equal axes
of both operands of each equation.  So such a function is one equation ::

    y_dot = bellhop_apart_from_axes[
      closed={ lambda ; jacobian x_dot. let y_dot = mul jacobian x_dot in (y_dot,) }
    ] jacobian x_dot

whose results differ over all axes over which its operands do, and so do their cotangents.
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
from bellhop.mesh.explicit_mesh import leave_mesh
from bellhop.mesh.manual_axes import has_varying, vary_like, vary_types_like

_call_p = Primitive("bellhop_apart_from_axes")
_call_p.multiple_results = True


def wrap_unvarying(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """Return a function that is called as one equation where its arguments differ between devices.

    Args:
        function: from pytrees of arrays to a sequence of arrays.
    """

    def call(*args: Any) -> list[Any]:
        if not has_varying(args):
            return list(function(*args))
        leaves, tree = jax.tree.flatten(args)
        types = list(map(jax.typeof, leaves))
        # XLA of JAX 0.11 ends the process where jax.shard_map splits what has no elements.
        operands = [leaf for leaf, type_ in zip(leaves, types, strict=True) if type_.size]

        def evaluate_operands(*operands: Any) -> Sequence[Any]:
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
    return list(jax.jit(jaxpr_as_fun(closed))(*operands))


@_call_p.def_abstract_eval
def _abstract_eval(*avals: Aval, closed: ClosedJaxpr) -> list[Any]:
    return vary_types_like(avals, closed.out_avals)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, closed: ClosedJaxpr
) -> tuple[list[Any], list[Any]]:
    given = [type(tangent) is not ad.Zero for tangent in tangents]
    jvp, moved = jvp_jaxpr(closed, given, instantiate=False)
    moving = [tangent for tangent, yes in zip(tangents, given, strict=True) if yes]
    # Apart from the results, which vmap takes for its own where tangents alone are mapped.
    of_tangents = [False] * len(moved) + [True] * sum(moved)
    tangent, _ = dce(jvp, of_tangents, [True] * len(jvp.in_avals))
    results = _call_p.bind(*primals, closed=closed)
    dots = iter(_call_p.bind(*primals, *moving, closed=tangent))
    return results, [
        next(dots) if yes else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, yes in zip(results, moved, strict=True)
    ]


def _transpose(cotangents: Sequence[Any], *operands: Operand, closed: ClosedJaxpr) -> list[Any]:
    linear = list(map(ad.is_undefined_primal, operands))
    likes = to_structs(itertools.compress(closed.in_avals, linear))

    def pulled_back(known: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        def along(*moving: Any) -> list[Any]:
            rest, others = iter(moving), iter(known)
            inputs = [next(rest) if yes else next(others) for yes in linear]
            return eval_jaxpr(closed.jaxpr, closed.consts, *inputs)

        return jax.linear_transpose(along, *likes)(list(cotangents))

    known = [operand for operand, yes in zip(operands, linear, strict=True) if not yes]
    found = iter(wrap_unvarying(pulled_back)(known, list(map(ad.instantiate_zeros, cotangents))))
    return [next(found) if yes else None for yes in linear]


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, closed: ClosedJaxpr
) -> tuple[list[Any], list[int]]:
    results = wrap_unvarying(jax.vmap(jaxpr_as_fun(closed), tuple(dims)))(*operands)
    return results, [0] * len(results)


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, closed: ClosedJaxpr) -> Any:
    return mlir.core_call_lowering(ctx, *operands, name="apart_from_axes", call_jaxpr=closed)


ad.primitive_jvps[_call_p] = _jvp
ad.primitive_transposes[_call_p] = _transpose
batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, _lower)
