"""`debug.cotangent`: show the cotangent of a value of the forward code.

``y = cotangent(x, show)`` is a ``LinearMap`` (``linear_map.py``) whose forward function is the
identity, and whose transpose passes the cotangent to ``show`` and returns it::

    y = bellhop_linear_map x
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.arguments.accepted_arguments import check_parameters
from bellhop.arguments.mutable_references import check_no_references
from bellhop.base.public_function import public_function
from bellhop.base.source import name_with_site, user_site
from bellhop.base.types import PyTree
from bellhop.callbacks.callback import call_for_effect
from bellhop.callbacks.callback_type import DebugCall
from bellhop.callbacks.linear_map import LinearMap
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.observers.print import print as print_when_run

_CHECK = DebugCall("debug.cotangent")


@public_function
def cotangent(x: PyTree, show: str | Callable[[Any], Any] | None = None) -> Any:
    """Return `x`, and look at its cotangent when reverse mode computes it.

    Args:
        x: a pytree of arrays. Leaves that are not floating-point or complex have no cotangent and
            are returned as they are.
        show: what happens to the cotangent, which has the structure of `x`:

            - a format string: it is printed, as by ``bellhop.debug.print(show, cotangent)``;
            - a function: it is traced with the cotangent, and may call ``bellhop.tap``,
              ``bellhop.debug.print`` or another callback; its result is ignored;
            - None: an error is raised if the cotangent holds NaN, with the line of this call.

    Returns:
        `x`, unchanged. Forward mode ignores the call.

    Raises:
        FloatingPointError: when the program runs, if `show` is None and the cotangent holds NaN.
        TypeError: if a leaf of `x` is not an array, `show` is something else, or the function
            `show` does not take the cotangent.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> @bellhop.qjit
        ... @bellhop.grad
        ... def f(x):
        ...     y = bellhop.debug.cotangent(x**2, "dy = {}")
        ...     return 3 * y
        >>> f(2.0)
        dy = 3.0
        Array(12., dtype=float64)
    """
    check_no_references(lambda: f"debug.cotangent (called from {user_site()})", (x,), {})
    leaves, tree = jax.tree.flatten(x)
    for leaf in leaves:
        if not is_array_like(leaf):
            raise TypeError(
                f"debug.cotangent: got {describe_value(leaf)}, expected a pytree of arrays. Pass "
                "the arrays alone."
            )
    give = _make_observer(show, user_site())
    is_inexact = [jnp.issubdtype(jax.typeof(leaf).dtype, jnp.inexact) for leaf in leaves]
    inexact = [leaf for leaf, yes in zip(leaves, is_inexact, strict=True) if yes]

    def transpose(saved: Any, cotangents: Any) -> list[Any]:
        """Pass the cotangents to the observer, and return them unchanged.

        JAX traces this function in reverse mode: it is the transpose of the linear map, an
        identity, that `cotangent` binds in the forward code.

        Args:
            saved: empty, since the map has no saved values.
            cotangents: cotangents of the floating-point and complex leaves of `x`.
        """
        del saved
        each = iter(cotangents)
        give(jax.tree.unflatten(tree, [next(each) if yes else None for yes in is_inexact]))
        return list(cotangents)

    avals = tuple(ShapedArray(jnp.shape(leaf), jax.typeof(leaf).dtype) for leaf in inexact)
    results = iter(
        LinearMap(transpose, lambda saved, tangents: list(tangents), 0, avals)([], inexact)
    )
    return jax.tree.unflatten(
        tree,
        [next(results) if yes else leaf for leaf, yes in zip(leaves, is_inexact, strict=True)],
    )


def _make_observer(show: Any, site: str) -> Callable[[Any], Any]:
    """Make the function that is traced with the cotangent in the backward pass.

    Args:
        show: format string, function or None, as in ``cotangent``.
        site: ``file:line`` of the user's call.

    Returns:
        a function of the cotangent, a pytree with None for leaves without cotangent; its result is
        ignored.

    Raises:
        TypeError: for other values of `show`, and a function that does not take the cotangent.
    """
    if show is None:
        check = _NanCheck(f"the cotangent of the value at {site} (debug.cotangent) holds NaN")
        return lambda tree: call_for_effect(check, (jax.tree.leaves(tree),), {}, _CHECK)
    if isinstance(show, str):
        return lambda tree: print_when_run(show, tree)
    if callable(show):
        where = f"debug.cotangent (called from {site})"
        check_parameters(where, f"show, {name_with_site(show)},", show, 1, "the cotangent")
        return show
    raise TypeError(
        f"debug.cotangent: show is {show!r}, expected a format string, a function or None."
    )


class _NanCheck(BuiltinFunction):
    """Function that a running program calls, which raises if an array contains NaN.

    Its argument is a list of arrays. Its constructor takes the message of the `FloatingPointError`.
    """

    __name__ = "debug.cotangent"

    def __call__(self, leaves: Any) -> None:
        """Raise `FloatingPointError` if an array contains NaN."""
        if any(np.isnan(leaf).any() for leaf in leaves):
            raise FloatingPointError(*self.arguments)
