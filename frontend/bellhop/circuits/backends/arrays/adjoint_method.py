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
    """Return `function` with a VJP by the adjoint method, without intermediate states.

    The backward pass starts at the final state, and recomputes earlier states. Forward mode is
    unchanged: the JVP is JAX's JVP of `function`.

    Args:
        function: ``function(state, *arrays) -> final_state``, where the arrays are for instance
            matrices or gate parameters.
        pullback: ``pullback(final_state, cotangent, *arrays)``, which recomputes earlier states
            from the final state. It returns the cotangent of the initial state, followed by a
            cotangent for each array that `is_differentiable`; integer arrays are skipped.

    Returns:
        a function with the signature of `function`, which JAX can differentiate in both modes.
    """
    run = jax.custom_jvp(function)

    def pushforward(saved: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        """Compute the tangent of the final state with the JVP of `function`.

        Args:
            saved: the final state, the initial state and all arrays.
            moving: tangents of the initial state and of the differentiable arrays.

        Returns:
            a list of one array, the tangent of the final state.
        """
        _, *primals = saved
        given = iter(moving)
        tangents = [next(given) if is_differentiable(x) else zero_tangent(x) for x in primals]
        return [jax.jvp(function, primals, tangents)[1]]

    def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the initial state and the differentiable arrays."""
        after, _, *arrays = saved
        return list(pullback(after, *cotangents, *arrays))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """JVP rule: return the final state and its tangent.

        The tangent is the result of one linear equation (a `LinearMap`). Forward mode evaluates
        the equation by `pushforward`; reverse mode transposes the equation by `pullback`.

        Args:
            primals: the initial state and all arrays.
            tangents: a tangent for each primal.
        """
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
