"""Define JAX derivatives by the adjoint method.

If the state before an operation can be computed from the state after it, the backward pass needs
only the final state, and no intermediate ones (Jones and Gacon, arXiv:2009.02823).
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
    """Return a function whose VJP needs only the final state.

    Its JVP is the JVP of `function`.

    Args:
        function: takes a state and arrays; returns the final state.
        pullback: takes the final state, its cotangent, and the arrays; returns the cotangents of
            the initial state and of all floating-point arrays.
    """
    run = jax.custom_jvp(function)

    def pushforward(saved: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        """Compute the tangent of the final state with the JVP of `function`."""
        _, *primals = saved
        given = iter(moving)
        tangents = [next(given) if is_differentiable(x) else zero_tangent(x) for x in primals]
        return [jax.jvp(function, primals, tangents)[1]]

    def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        after, _, *arrays = saved
        return list(pullback(after, *cotangents, *arrays))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Evaluate the function; its tangent is a linear map with `pullback` as transpose."""
        after = run(*primals)
        saved = [after, *primals]
        aval = ShapedArray(after.shape, after.dtype)
        linear = LinearMap(transpose, pushforward, len(saved), (aval,))
        moving = [t for t, x in zip(tangents, primals, strict=True) if is_differentiable(x)]
        return after, linear(saved, moving)[0]

    run.defjvp(jvp)
    return run


def is_differentiable(value: Operand) -> bool:
    """Return whether an array has a floating-point or complex dtype."""
    return jnp.issubdtype(value.dtype, jnp.inexact)
