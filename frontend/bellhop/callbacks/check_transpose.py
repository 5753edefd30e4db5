"""debug.check_transpose: a dot-product test of a linear function and its transpose."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.arguments.accepted_arguments import format_count
from bellhop.arguments.static_arguments import parse_positions
from bellhop.base.public_function import public_function
from bellhop.base.source import function_name


@public_function
def check_transpose(
    function: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] | None = None,
    rtol: float | None = None,
    seed: int = 0,
) -> None:
    """Test that a function is linear and that its transpose fits.

    For random arguments ``u`` and cotangents ``v`` the two sums ``sum(v * f(u))`` and
    ``sum(transpose(v) * u)`` must be equal, and ``f`` must map a sum to the sum of its values. For
    complex values the products are not conjugated. The real parts of the two sums are compared, as
    the transpose of a map from real to complex values is real.

    Args:
        function: a callback with a transpose, or any function that JAX can transpose.
        args: arguments, pytrees of arrays; of the linear arguments only shapes and dtypes are used.
        argnums: positions of the linear arguments; None for all.
        rtol: largest difference of two sums, relative to the sum of the absolute values of their
            terms; None for the square root of the machine epsilon of the linear arguments' least
            precise dtype.
        seed: seed of the random numbers.

    Raises:
        AssertionError: if the function is not linear, or its transpose does not fit.
        TypeError: for a linear argument of integers or booleans, and for ``argnums`` that are not
            positions.
        ValueError: for a position without an argument.

    Example:
        >>> import bellhop, jax, numpy as np
        >>> vector = jax.ShapeDtypeStruct((4,), float)
        >>> @bellhop.pure_callback
        ... def reverse(x) -> vector:
        ...     return x[::-1]
        >>> reverse = reverse.transpose(symmetric=True)
        >>> bellhop.debug.check_transpose(reverse, np.zeros(4))
        >>> cumulate = bellhop.pure_callback(np.cumsum, vector).transpose(symmetric=True)
        >>> bellhop.debug.check_transpose(cumulate, np.zeros(4))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        AssertionError: check_transpose: the transpose does not fit: ...
    """
    numbers = parse_positions("argnums", argnums, "check_transpose")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise ValueError(
                f"check_transpose: argnums has {number}, but there "
                f"{'is' if len(args) == 1 else 'are'} {format_count(len(args), 'argument')}, "
                "counted from 0. Correct the position."
            )
    positions = sorted(
        range(len(args)) if argnums is None else {number % len(args) for number in numbers}
    )
    linear = [args[i] for i in positions]
    dtypes = []
    for position, argument in zip(positions, linear, strict=True):
        for leaf in jax.tree.leaves(argument):
            dtype = jnp.result_type(leaf)
            if not jnp.issubdtype(dtype, jnp.inexact):
                raise TypeError(
                    f"check_transpose: the linear argument {position} has the dtype {dtype}, "
                    "expected a floating-point or complex dtype. Convert it, or name only the "
                    "linear arguments in argnums."
                )
            dtypes.append(dtype)
    generator = np.random.default_rng(seed)

    def call(*values: Any) -> Any:
        """Call the tested function with ``values`` as its linear arguments."""
        each = dict(zip(positions, values, strict=True))
        return function(*(each.get(i, arg) for i, arg in enumerate(args)))

    u, other = (_draw_like(generator, linear) for _ in range(2))
    value = call(*u)
    v = _draw_like(generator, value)
    transposed = jax.linear_transpose(call, *u)(v)
    name = function_name(function)
    if rtol is None:
        rtol = max(float(np.sqrt(jnp.finfo(dtype).eps)) for dtype in dtypes)
    total = call(*jax.tree.map(jnp.add, u, other))
    _compare(
        f"the function is not linear: sum(v * {name}(u + w)) differs from "
        f"sum(v * ({name}(u) + {name}(w)))",
        "Correct the function, or name only its linear arguments in argnums.",
        _dot(v, total),
        _dot(v, value) + _dot(v, call(*other)),
        _dot(jax.tree.map(jnp.abs, v), jax.tree.map(jnp.abs, total)),
        rtol,
    )
    _compare(
        f"the transpose does not fit: sum(v * {name}(u)) differs from sum(transpose(v) * u)",
        "Correct the function or its transpose.",
        _dot(v, value).real,
        _dot(tuple(transposed), tuple(u)).real,
        _dot(jax.tree.map(jnp.abs, v), jax.tree.map(jnp.abs, value)),
        rtol,
    )


def _draw_like(generator: np.random.Generator, tree: Any) -> Any:
    """Draw normally distributed arrays with the structure and types of a pytree."""

    def draw(leaf: Any) -> Any:
        """Return a random array with the shape and dtype of one leaf."""
        dtype = jnp.result_type(leaf)
        values = generator.standard_normal(jnp.shape(leaf))
        if jnp.issubdtype(dtype, jnp.complexfloating):
            values = values + 1j * generator.standard_normal(jnp.shape(leaf))
        return jnp.asarray(values, dtype)

    return jax.tree.map(draw, tree)


def _dot(left: Any, right: Any) -> Any:
    """Return the sum of the products of all leaves, without conjugation."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), left, right)
    return sum(jax.tree.leaves(products))


def _compare(fault: str, advice: str, first: Any, second: Any, scale: Any, rtol: float) -> None:
    """Raise an AssertionError unless two numbers are equal up to `rtol` times `scale`.

    Args:
        fault: the fault, and the two numbers that differ, for the error.
        advice: the remedy, a sentence for the error.
        first: a real or complex number.
        second: the number to compare with.
        scale: sum of the magnitudes of the terms of which each number is the sum.
    """
    difference = float(abs(first - second))
    if not difference <= rtol * float(scale):
        raise AssertionError(
            f"check_transpose: {fault}. Got {first} and {second}, expected a relative difference "
            f"of at most {rtol:.1e}. {advice}"
        )
