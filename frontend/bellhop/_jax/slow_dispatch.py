"""Runs of compiled programs without JAX's fast calls, and results that are looked at.

These are private, for jax 0.10 to 0.12:

* ``Compiled.call`` and ``_params``: run a program without JAX's C++ fast path.  That path refuses a
  program that calls itself during its first run, and ``Compiled.__call__`` always takes it.
* ``InternalFloatingPointError`` and ``maybe_recursive_nan_check``: what ``jax.debug_nans`` raises
  of a result, and what ``jax.jit`` makes of it.
* ``dispatch.check_special``: looks at results.  JAX looks at those of its own fast calls by a hook,
  which a thread that has left a ``jax.debug_nans(False)`` is without.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax._src import api_util, dispatch  # noqa: TID251

# JAX's options to have results looked at, each followed by its value where it is not set.
UNCHECKED = jax.debug_nans, False, jax.debug_infs, False


def run_compiled(
    compiled: jax.stages.Compiled,
    uncompiled: Callable[..., Any] | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Run a compiled program whose callbacks may call the same program again.

    Args:
        compiled: the program.
        uncompiled: the same, operation by operation: under ``jax.debug_nans`` it says which one
            the first result that is not finite came of.
        args: the arguments with a position.
        kwargs: those with a name.

    Raises:
        FloatingPointError: under ``jax.debug_nans``, where ``Compiled`` has a private exception.
    """
    try:
        results, *_ = compiled.call(compiled._params, *args, **kwargs)
        return results
    except api_util.InternalFloatingPointError as error:
        what = _describe_invalid_value(error, uncompiled, args, kwargs)
    raise FloatingPointError(what)


def _describe_invalid_value(
    error: api_util.InternalFloatingPointError,
    uncompiled: Callable[..., Any] | None,
    args: Any,
    kwargs: Any,
) -> str:
    """Return JAX's words for an error; or raise another, which says what operation it came of."""
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
    """Refuse results that are not finite, as ``jax.debug_nans`` and ``jax.debug_infs`` ask.

    Args:
        name: of what has returned them.
        results: a pytree, also of arrays on devices.
        uncompiled: as in ``run_compiled``.
        args: the arguments with a position.
        kwargs: those with a name.

    Raises:
        FloatingPointError: where one is not finite.
    """
    arrays = [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)]
    try:
        dispatch.check_special(
            name, [shard.data for array in arrays for shard in array.addressable_shards]
        )
        return
    except api_util.InternalFloatingPointError as error:
        what = _describe_invalid_value(error, uncompiled, args, kwargs)
    raise FloatingPointError(what)


def is_checking_results() -> bool:
    """Tell whether ``jax.debug_nans`` or ``jax.debug_infs`` is set."""
    return bool(jax.config.jax_debug_nans or jax.config.jax_debug_infs)
