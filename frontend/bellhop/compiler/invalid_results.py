"""Errors for callbacks that return NaN or infinity, under ``jax_debug_nans`` and such.

If a program returns NaN, JAX evaluates the program's function once more, eagerly. A loop or
conditional is one operation of that evaluation, and JAX names only the operation. So callbacks that
are compiled for that evaluation check their results themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop._jax.slow_dispatch import searched_values

_TESTS: dict[str, Callable[[Any], Any]] = {"nan": np.isnan, "inf": np.isinf}


def check_debug_flags(called: str, results: Sequence[Any]) -> None:
    """Raise an error for a NaN or infinity that JAX's debug options forbid.

    Args:
        called: description of the callback, for errors.
        results: arrays.

    Raises:
        FloatingPointError: if an array contains a NaN and ``jax_debug_nans`` is set, or an infinity
            and ``jax_debug_infs`` is set.
    """
    if jax.config.jax_debug_nans:
        _check_finite(called, results, "nan")
    if jax.config.jax_debug_infs:
        _check_finite(called, results, "inf")


def check_results_in_search(
    function: Callable[..., Any], called: str, n_outputs: int | None
) -> Callable[..., Any]:
    """Wrap a callback's function to check its results while JAX searches for a NaN.

    With ``jax_debug_nans`` or ``jax_debug_infs`` JAX evaluates a program that returned a NaN or
    infinity once more, eagerly, to find the operation. Results are checked during this search only,
    although an executable that was compiled for it, such as a loop, may be used again.

    Args:
        function: takes and returns leaves, as the runtime calls it.
        called: description of the callback, for errors.
        n_outputs: number of leading arguments that are the arrays of the results; None if the
            function returns its results.

    Returns:
        a function that raises `FloatingPointError` for a result that JAX's options forbid.
    """

    def checked(*leaves: Any) -> Any:
        """Call ``function`` and return its result; while JAX searches, check it.

        Raises:
            FloatingPointError: for a NaN or infinity for which JAX searches.
        """
        result = function(*leaves)
        if searched := searched_values():
            values = jax.tree.leaves(result) if n_outputs is None else leaves[:n_outputs]
            numbers = (float, complex, np.generic, np.ndarray, jax.Array)
            arrays = [np.asarray(value) for value in values if isinstance(value, numbers)]
            for kind in searched:
                _check_finite(called, arrays, kind)
        return result

    return checked


def _check_finite(called: str, results: Sequence[Any], kind: str) -> None:
    """Raise an error if an array contains a NaN, or an infinity.

    Args:
        called: description of the callback, for the error.
        results: arrays; arrays of integers and bools are ignored.
        kind: the value to look for, ``"nan"`` or ``"inf"``.

    Raises:
        FloatingPointError: naming the callback and the option of JAX that forbids the value.
    """
    inexact = [result for result in results if jnp.issubdtype(result.dtype, np.inexact)]
    if any(np.any(_TESTS[kind](result)) for result in inexact):
        raise FloatingPointError(
            f"{called} returned {kind}, which the option jax_debug_{kind}s forbids. Return "
            "other values, or turn the option off."
        )
