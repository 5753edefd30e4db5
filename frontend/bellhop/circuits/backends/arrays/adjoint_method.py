"""The adjoint method as a derivative of JAX's: of a function that takes a state and arrays.

Where the state before can be computed from the state behind (Jones and Gacon, arXiv:2009.02823),
none is kept for the derivative but the last one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.base.types import Operand
from bellhop.callbacks.linear_map import LinearMap, zero_tangent


def define_adjoint_derivative(
    function: Callable[..., Any], pullback: Callable[..., Sequence[Any]]
) -> Callable[..., Any]:
    """Return a function that is differentiated backwards from the state behind it.

    Forwards it is differentiated as JAX does.

    Args:
        function: takes a state and arrays; returns the state behind.
        pullback: takes the state behind, its cotangent, and the arrays; returns the cotangents of
            the state before, and of those arrays that may have one.
    """
    run = jax.custom_jvp(function)

    def pushforward(saved: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        _, *primals = saved
        given = iter(moving)
        tangents = [next(given) if is_differentiable(x) else zero_tangent(x) for x in primals]
        return [jax.jvp(function, primals, tangents)[1]]

    def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        after, _, *arrays = saved
        return list(pullback(after, *cotangents, *arrays))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        after = run(*primals)
        saved = [after, *primals]
        aval = ShapedArray(after.shape, after.dtype)
        linear = LinearMap(transpose, pushforward, len(saved), (aval,))
        moving = [t for t, x in zip(tangents, primals, strict=True) if is_differentiable(x)]
        return after, linear(saved, moving)[0]

    run.defjvp(jvp)
    return run


def is_differentiable(value: Operand) -> bool:
    """Tell whether an array may have a tangent."""
    return jnp.issubdtype(value.dtype, jnp.inexact)
