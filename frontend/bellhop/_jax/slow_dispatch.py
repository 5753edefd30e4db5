"""Execution of compiled programs without JAX's fast path, and NaN checks of results.

Private names, for jax 0.10 to 0.12:

* ``Compiled.call`` and ``_params``: execute a program without JAX's C++ fast path.  That path does
  not support programs that call themselves during the first execution; ``Compiled.__call__`` always
  uses it.
* ``InternalFloatingPointError`` and ``maybe_recursive_nan_check``: the exception of
  ``jax.debug_nans``, and the function by which ``jax.jit`` locates the operation that caused it.
* ``dispatch.check_special``: checks results for NaN.  JAX's own hook for fast calls is missing in
  threads that have left a ``jax.debug_nans(False)`` block.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax._src import api_util, dispatch  # noqa: TID251

# JAX's options for checked results, each followed by its value when off.
UNCHECKED = jax.debug_nans, False, jax.debug_infs, False


def run_compiled(
    compiled: jax.stages.Compiled,
    uncompiled: Callable[..., Any] | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Execute a compiled program whose callbacks may call the same program.

    JAX's own call of a program holds a lock during the first execution, so that a recursive call
    fails.

    Args:
        uncompiled: the program's Python function: if ``jax.debug_nans`` finds a NaN, it is
            evaluated eagerly to name the operation; None to name the program only.
        args: positional arguments of the program.

    Returns:
        the program's results, in the structure of the function's result.

    Raises:
        FloatingPointError: for results that ``jax.debug_nans`` or ``jax.debug_infs`` rejects.
    """
    try:
        results, *_ = compiled.call(compiled._params, *args, **kwargs)
        return results
    except api_util.InternalFloatingPointError as error:
        message = _describe_invalid_value(error, uncompiled, args, kwargs)
    raise FloatingPointError(message)


def _describe_invalid_value(
    error: api_util.InternalFloatingPointError,
    uncompiled: Callable[..., Any] | None,
    args: Any,
    kwargs: Any,
) -> str:
    """Return the text of an error for a NaN or infinity, or raise a more exact error.

    Args:
        error: JAX's error, which names the whole program.
        uncompiled: the program's Python function, which is evaluated eagerly; or None.

    Raises:
        FloatingPointError: names the operation, if the eager evaluation finds it.
    """
    if uncompiled is not None:
        api_util.maybe_recursive_nan_check(error, uncompiled, args, kwargs)
    return f"invalid value ({error.ty}) encountered in {error.name}"


def check_results(
    name: str,
    results: Any,
    uncompiled: Callable[..., Any] | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Raise an error for NaN or infinite results if JAX's debug options are set.

    Args:
        name: name of the program or callback, for the error.
        results: a pytree; arrays in it are checked.
        uncompiled: the Python function that computed the results, which is evaluated eagerly to
            name the operation in the error; or None.
        args: positional arguments of `uncompiled`.
        kwargs: keyword arguments of `uncompiled`.

    Raises:
        FloatingPointError: if a result is NaN (``jax.debug_nans``) or infinite
            (``jax.debug_infs``).
    """
    arrays = [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)]
    try:
        dispatch.check_special(
            name, [shard.data for array in arrays for shard in array.addressable_shards]
        )
        return
    except api_util.InternalFloatingPointError as error:
        message = _describe_invalid_value(error, uncompiled, args, kwargs)
    raise FloatingPointError(message)


def is_checking_results() -> bool:
    """Return whether ``jax.debug_nans`` or ``jax.debug_infs`` is set."""
    return bool(jax.config.jax_debug_nans or jax.config.jax_debug_infs)
