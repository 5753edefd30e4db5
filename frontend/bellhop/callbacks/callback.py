"""callback: a Python function that is called for its effect alone."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from bellhop._source import user_site
from bellhop.callbacks.primitive import debug_callback_p
from bellhop.callbacks.target import CallbackTarget


def call_for_effect(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    flavour: str,
    *,
    asynchronous: bool = False,
) -> None:
    """Call ``function`` when the program gets here; what it returns is dropped."""
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    target = CallbackTarget(
        flavour=flavour,
        function=function,
        in_tree=in_tree,
        out_tree=jax.tree.structure(None),
        result_avals=(),
        site=user_site(),
        copies=True,
        asynchronous=asynchronous,
    )
    debug_callback_p.bind(*leaves, target=target)


def callback(
    fn: Callable[..., Any], *, ordered: bool = False, asynchronous: bool = False
) -> Callable[..., None]:
    """Make a Python function that compiled programs call for its effect.

    It runs as the program does: once for each time the program gets there, once for each
    mapped element under ``vmap``, on primal values under ``grad``; calls keep program order,
    and all are finished when the compiled function returns, but for asynchronous ones.  It
    gets NumPy arrays that it may keep.

    Args:
        fn: the function, of pytrees of arrays of any shapes and dtypes; what it returns is
            dropped.
        ordered: taken because ``jax.debug.callback`` takes it; calls keep program order
            either way.
        asynchronous: whether the program goes on without waiting for the calls, which then
            are made by another thread, in order, as those of ``bellhop.tap`` are;
            ``bellhop.barrier_wait`` waits for them and raises what they raised.

    Returns:
        a function of pytrees of arrays that returns None.

    Raises:
        TypeError: where ``fn`` is no function.

    Example:
        >>> import bellhop
        >>> seen = []
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.callback(seen.append)(x)
        ...     return 2 * x
        >>> f(1.5)
        Array(3., dtype=float64, weak_type=True)
        >>> seen
        [array(1.5)]
    """
    if not callable(fn):
        raise TypeError(f"callback takes a function, got {fn!r} of type {type(fn).__name__}.")
    del ordered

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> None:
        call_for_effect(fn, args, kwargs, "callback", asynchronous=asynchronous)

    return call
