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

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import api_util, dispatch  # noqa: TID251

# JAX's options for checked results, each followed by its value when off.
UNCHECKED = jax.debug_nans, False, jax.debug_infs, False


# By thread that evaluates a program eagerly: the values that it searches for, "nan" and "inf".
_searched: dict[int, frozenset[str]] = {}


@contextlib.contextmanager
def search_invalid_values() -> Iterator[None]:
    """Let callbacks check their results for NaN and infinity, inside of a ``with`` block.

    Used while this thread evaluates a program eagerly, to locate the callback that computes an
    invalid value. ``jax.debug_nans`` and ``jax.debug_infs`` select the values.
    """
    options = {"nan": jax.config.jax_debug_nans, "inf": jax.config.jax_debug_infs}
    thread = threading.get_ident()
    outer = _searched.get(thread)
    _searched[thread] = frozenset(value for value, is_wanted in options.items() if is_wanted)
    try:
        yield
    finally:
        if outer is None:
            del _searched[thread]
        else:
            _searched[thread] = outer


def is_searching() -> bool:
    """Return whether this thread evaluates a program to locate a NaN or infinity.

    True in ``with`` blocks of `search_invalid_values` in this thread.
    """
    return bool(_searched.get(threading.get_ident()))


def searched_values() -> frozenset[str]:
    """Return the values that any thread locates now: a subset of ``{"nan", "inf"}``.

    A thread locates values inside of `search_invalid_values`. All threads count, since the program
    that one thread evaluates may call callbacks on threads of XLA.
    """
    return frozenset().union(*list(_searched.values()))


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
        compiled: the program, JAX's ``Compiled``.
        uncompiled: the program's Python function: if JAX's debug options reject a result, it is
            evaluated eagerly to name the operation; None to name the program only.
        args: positional arguments of the program.
        kwargs: keyword arguments of the program.

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
        args: the program's positional arguments, a tuple.
        kwargs: the program's keyword arguments, a dictionary.

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
