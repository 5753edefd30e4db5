"""io_callback: a Python function with side effects and results."""

import functools
from collections.abc import Callable
from typing import Any

from bellhop.arguments.declared_types import MISSING, annotated_result_type, result_avals
from bellhop.base.source import function_name
from bellhop.callbacks.bound_methods import Caller
from bellhop.callbacks.call_signature import parse_call
from bellhop.callbacks.callback_type import Ordered, Results, SideEffects
from bellhop.callbacks.vmap_method import ONE_BY_ONE, check_vmap_method
from bellhop.compiler.callback_target import flatten_arguments, must_run_in_python
from bellhop.mesh.per_shard_callbacks import call_per_shard, result_shardings

IO = SideEffects("io_callback")
ORDERED_IO = Ordered("io_callback", primitive="ordered_io_callback")


def io_callback(
    callback_fn: Callable[..., Any] | None = None,
    result_type: Any = MISSING,
    *args: Any,
    ordered: bool = False,
    vmap_method: str | None = None,
    partitioned: bool = False,
    sharding: Any = None,
    **kwargs: Any,
) -> Any:
    """Make a Python function with side effects callable from compiled programs.

    It runs exactly once for each time the program gets there, whether or not anybody uses
    what it returns; under ``vmap`` once for each element.  In a ``qjit`` program all calls with
    effects keep program order, whichever kind of callback makes them; under ``vmap`` a call is
    made for all elements before the next call.  In a plain ``jax.jit`` a call has no order, unless
    it is ordered.  It gets NumPy arrays that it may
    keep, and what it returns must be of the declared shapes and dtypes.  It may stand in what
    is differentiated, but no differentiated value may flow into it.

    Args:
        callback_fn: the function.  Its arguments and result are pytrees of arrays of any shapes and
            dtypes.
        result_type: what it returns, as ``pure_callback`` takes it.  Without one and without
            an annotation, what it returns is dropped.
        ordered: whether calls keep program order in a plain ``jax.jit`` too, among themselves and
            with ``debug.callback``, across control flow.  An ordered call is not mapped.
        vmap_method: how it is called for the elements of a mapped axis, where there is no order:
            ``"sequential"``, or None, in a loop; ``"sequential_threadpool"``, on threads, as
            ``pure_callback`` says.
        partitioned: whether, of arrays that are spread over devices, and so over processes, each
            device calls it with its own part, in any order; without it one call is made, with whole
            arrays.  What it returns is the part of a whole result that is declared with its
            sharding, ``jax.ShapeDtypeStruct(shape, dtype, sharding=...)``.  Where an exception is
            raised, the other devices are not told.  A ``qjit`` program runs on one device.
        args: where there are any, the function is called with them at once, as
            ``jax.experimental.io_callback`` does.
        sharding: for JAX's interface; it may name one device.
        kwargs: as ``args``.  ``callback`` and ``result_shape_dtypes`` among them are JAX's names
            for ``callback_fn`` and ``result_type``, and ask for a call, with or without arguments.

    Returns:
        a function of pytrees of arrays that returns what ``result_type`` says; with arguments,
        the result of a call; without ``callback_fn``, a decorator.

    Raises:
        ResultTypeError: (a TypeError) where the result type says too little.
        DifferentiableCompileError: when traced, where a differentiated value flows in.
        ValueError: for another ``vmap_method``; when traced, where an ordered one is mapped by
            ``vmap``.
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
    style = parse_call("io_callback", callback_fn, result_type, args, kwargs, sharding)
    callback_fn = style.function
    if callback_fn is None:
        return functools.partial(
            io_callback,
            result_type=style.result_type,
            ordered=ordered,
            vmap_method=vmap_method,
            partitioned=partitioned,
        )
    fn = callback_fn
    method = "sequential" if vmap_method is None else vmap_method
    methods = ONE_BY_ONE[:1] if ordered else ONE_BY_ONE
    what = f"{'ordered ' * ordered}io_callback '{function_name(fn)}'"
    check_vmap_method(method, what, methods)
    if ordered and partitioned:
        raise ValueError(
            f"{what} has partitioned=True, and the calls of several devices have no order. Use "
            "ordered=False, or call it once, with whole arrays."
        )
    if style.result_type is MISSING:
        style.result_type = annotated_result_type(fn)
    # Most of what is called for its effect returns nothing, and says nothing of it.
    declared = None if style.result_type is MISSING else style.result_type
    results = result_avals(fn, declared)
    spread = result_shardings(what, declared) if partitioned else []
    flavour = ORDERED_IO if ordered else IO

    def caller_of(fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if must_run_in_python(args, kwargs):
                return fn(*args, **kwargs)
            if not partitioned:
                return flavour.call(fn, args, kwargs, results, vmap_method=method)
            leaves, in_tree = flatten_arguments(flavour.name, fn, args, kwargs)

            def call_parts(parts: Any, results: Results) -> Any:
                target = flavour.target(fn, in_tree, results, vmap_method=method, partitioned=True)
                return flavour.bind(target, parts)

            return call_per_shard(what, leaves, results, spread, call_parts)

        return call

    return style.apply(Caller(fn, caller_of, what))
