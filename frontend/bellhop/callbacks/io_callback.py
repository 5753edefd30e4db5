"""`io_callback`: a Python function with side effects and results."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from bellhop.arguments.declared_types import MISSING, annotated_result_type, result_avals
from bellhop.base.public_function import public_function
from bellhop.base.source import function_name
from bellhop.callbacks.bound_methods import Caller
from bellhop.callbacks.call_signature import parse_call
from bellhop.callbacks.callback_type import Ordered, Results, SideEffects
from bellhop.callbacks.vmap_method import ONE_BY_ONE, check_vmap_method
from bellhop.compiler.callback_target import flatten_arguments, must_run_in_python
from bellhop.mesh.per_shard_callbacks import call_per_shard, result_shardings

IO = SideEffects("io_callback")
ORDERED_IO = Ordered("io_callback", primitive="ordered_io_callback")


@public_function
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

    The program calls the function exactly once each time that it reaches the call, even if the
    result is not used; under ``vmap``, once for each batch element.  In a ``qjit`` program all
    calls with side effects keep program order, whichever kind of callback makes them; under
    ``vmap`` a call is made for all batch elements before the next call.  In a plain ``jax.jit``
    only ordered calls have an order.  The function gets NumPy arrays, which it may keep; its result
    must have the declared shapes and dtypes.  Differentiated code may contain the call, but the
    arguments must not depend on differentiated values.

    Args:
        callback_fn: the function.  Its arguments and result are pytrees of arrays of any shapes and
            dtypes.
        result_type: type of its result, as in ``pure_callback``.  If there is neither a type nor a
            return annotation, the result is dropped; for a NumPy ufunc the type is required.
        ordered: whether calls also keep program order in a plain ``jax.jit``, among themselves and
            with ``debug.callback``, across control flow.  Ordered calls cannot be batched by
            ``vmap``.
        vmap_method: how batch elements are called if the callback is not ordered:
            ``"sequential"``, or None, in a loop; ``"sequential_threadpool"``, on threads, as in
            ``pure_callback``.
        partitioned: whether each device calls the function with its shard of arrays that are
            distributed over devices or processes, in any order; otherwise there is one call with
            whole arrays.  The function then returns one shard of a result, which must be declared
            with a sharding: ``jax.ShapeDtypeStruct(shape, dtype, sharding=...)``.  An exception on
            one device is not raised on other devices.  A ``qjit`` program runs on one device.
        args: if present, the function is called with them at once, as in
            ``jax.experimental.io_callback``.
        sharding: accepted for compatibility with JAX; it may name one device.
        kwargs: keyword arguments for the function, used like ``args``.  ``callback`` and
            ``result_shape_dtypes`` are JAX's names for ``callback_fn`` and ``result_type``; with
            them, the function is called at once.

    Returns:
        a function of pytrees of arrays that returns a value of type ``result_type``; with
        arguments, the result of the call; without ``callback_fn``, a decorator.

    Raises:
        ResultTypeError: (a TypeError) if the result type does not determine shapes and dtypes.
        TypeError: if ``callback_fn`` is not callable; when traced, if the function does not accept
            the arguments of a call.
        DifferentiableCompileError: when traced, if an argument depends on a differentiated value.
        ValueError: if ``vmap_method`` is not supported, or ``ordered`` and ``partitioned`` are both
            set; when traced, if ``vmap`` batches an ordered call.
        NotImplementedError: for a ``sharding`` over several devices; from JAX, under ``vmap`` of
            ``cond``, which would run every branch.

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
    described = f"{'ordered ' * ordered}io_callback '{function_name(fn)}'"
    check_vmap_method(method, described, methods)
    if ordered and partitioned:
        raise ValueError(
            f"{described} has partitioned=True and ordered=True, but the calls of several devices "
            "have no order. Pass ordered=False, or pass partitioned=False, which calls the "
            "function once with whole arrays."
        )
    if style.result_type is MISSING:
        style.result_type = annotated_result_type(fn)
    # Most functions with side effects return None and have no annotation.
    # A ufunc has no effect: dropping its result would leave nothing of the call.
    is_dropped = style.result_type is MISSING and not isinstance(fn, np.ufunc)
    declared = None if is_dropped else style.result_type
    results = result_avals(fn, declared)
    spread = result_shardings(described, declared) if partitioned else []
    callback_type = ORDERED_IO if ordered else IO

    def make_caller(fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `fn` as a callback with ``io_callback``'s options.

        Args:
            fn: the user's function, or its bound method.
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            """Call `fn` as a callback of the traced program; outside of tracing, at once.

            With ``partitioned=True`` each device calls it with its shards. If an argument outside
            of tracing is not an array for JAX, such as a tensor of another framework, `fn` is
            called with the arguments as they are, and its result is not converted.
            """
            if must_run_in_python(args, kwargs):
                return fn(*args, **kwargs)
            if not partitioned:
                return callback_type.call(fn, args, kwargs, results, vmap_method=method)
            leaves, in_tree = flatten_arguments(callback_type.name, fn, args, kwargs)

            def call_parts(parts: Any, results: Results) -> Any:
                """Bind the callback's primitive for one device of the mesh.

                Args:
                    parts: the device's shards of the argument leaves.
                    results: types and ``PyTreeDef`` of the device's shards of the result.
                """
                target = callback_type.target(
                    fn, in_tree, results, vmap_method=method, partitioned=True
                )
                return callback_type.bind(target, parts)

            return call_per_shard(described, leaves, results, spread, call_parts)

        return call

    return style.apply(Caller(fn, make_caller, described))
