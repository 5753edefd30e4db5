"""io_callback: a Python function with side effects and results."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from bellhop._source import user_site
from bellhop.callbacks.primitive import io_callback_p, ordered_io_callback_p
from bellhop.callbacks.result_type import MISSING, annotated_result_type, result_avals
from bellhop.callbacks.target import CallbackTarget


def io_callback(
    fn: Callable[..., Any] | None = None, result_type: Any = MISSING, *, ordered: bool = False
) -> Any:
    """Make a Python function with side effects callable from compiled programs.

    It runs exactly once for each time the program gets there, whether or not anybody uses
    what it returns; under ``vmap`` once for each element.  It gets NumPy arrays that it may
    keep, and what it returns must be of the declared shapes and dtypes.  It may stand in what
    is differentiated, but no differentiated value may flow into it.

    Args:
        fn: the function.  Its arguments and result are pytrees of arrays of any shapes and
            dtypes.
        result_type: what it returns, as ``pure_callback`` takes it.  Without one and without
            an annotation, what it returns is dropped.
        ordered: whether calls keep program order, among themselves and with
            ``debug.callback``, across control flow.

    Returns:
        a function of pytrees of arrays that returns what ``result_type`` says; without
        ``fn``, a decorator.

    Raises:
        ResultTypeError: (a TypeError) where the result type says too little.
        DifferentiableCompileError: when traced, where a differentiated value flows in.
        ValueError: when traced, where an ordered one is mapped by ``vmap``.
        NotImplementedError: from JAX, under ``vmap`` of ``cond``, which would run every branch.

    Example:
        >>> import bellhop, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> @bellhop.qjit
        ... def f(x):
        ...     return x + bellhop.io_callback(lambda: rng.integers(10), int)()
        >>> f(100), f(100)
        (Array(108, dtype=int64), Array(106, dtype=int64))
    """
    if fn is None:
        return functools.partial(io_callback, result_type=result_type, ordered=ordered)
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(
            f"io_callback takes a function first and its result type second, got {fn!r}. To "
            "give the type to a decorator: @io_callback(result_type=...)."
        )
    if result_type is MISSING:
        result_type = annotated_result_type(fn)
    # Most of what is called for its effect returns nothing, and says nothing of it.
    avals, out_tree = result_avals(fn, None if result_type is MISSING else result_type)
    primitive = ordered_io_callback_p if ordered else io_callback_p

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        target = CallbackTarget(
            flavour="io_callback",
            function=fn,
            in_tree=in_tree,
            out_tree=out_tree,
            result_avals=avals,
            site=user_site(),
            copies=True,
        )
        return jax.tree.unflatten(out_tree, primitive.bind(*leaves, target=target))

    return call
