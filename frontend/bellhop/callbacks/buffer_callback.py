"""buffer_callback: a Python function that writes its results into arrays that it is given."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.core import ShapedArray

from bellhop.arguments.declared_types import result_avals
from bellhop.base.source import function_name
from bellhop.callbacks.callback_type import Pure, SideEffects
from bellhop.callbacks.vmap_method import AT_ONCE, ONE_BY_ONE, check_vmap_method
from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
from bellhop.compiler.callback_target import ON_THREADS, describe_value, flatten_arguments

BUFFER = Pure("buffer_callback", target_type=BufferCallbackTarget)
BUFFER_WITH_EFFECTS = SideEffects(
    "buffer_callback", primitive="buffer_callback_with_effects", target_type=BufferCallbackTarget
)


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
    in_place: bool = False,
) -> Callable[..., Any]:
    """Make a Python function that writes its results callable from programs.

    It is called as ``fn(context, out, *args, **kwargs)`` and returns None.  On the CPU ``out``
    is of writable NumPy arrays, to be written as in ``out[...] = value`` or
    ``np.add(x, y, out=out)``; before that they hold zeros.  Arguments are read-only NumPy
    arrays.  All of them are the function's to keep: the program copies what they hold when
    the function returns.

    With ``in_place=True`` they are the program's own memory, and nothing is copied: ``out`` holds
    anything, numbers of other computations too, and what is not written stays so.  They are
    then valid for the length of the call: nothing may keep one, or a view of it, any longer,
    be it a list, a closure or an exception.  What does is an error, but the memory is then
    used for something else, and reading it may end the process.

    In a region on a GPU ``out`` and arguments are the buffers of
    ``jax.experimental.buffer_callback`` on the device.

    Args:
        callback: the function.
        result_shape_dtypes: shapes and dtypes of the results: a pytree of what ``pure_callback``
            takes for a result.
        has_side_effect: whether the call must be made even if nobody uses its results.  In a
            ``qjit`` program it is then in program order with all other calls with effects; in a
            plain ``jax.jit``, and in a region on a GPU, it has no order.
        vmap_method: how it meets ``vmap``, as for ``pure_callback``; None refuses it.
        input_output_aliases: which argument's memory is that of which result, by place among
            the leaves of the arguments and of the results.  Such an argument is writable, and
            is where the result is; the program copies it first if it still needs it.
        command_buffer_compatible: on a GPU, whether the call may be recorded once and
            replayed; the CPU has no such recordings.
        in_place: whether it reads and writes in the program's own memory, on the CPU.

    Returns:
        a function of pytrees of arrays that returns what ``result_shape_dtypes`` says.

    Raises:
        TypeError: where ``fn`` is no function, or returns something (when it does).
        ResultTypeError: (a TypeError) where the result types say too little.
        RuntimeError: with ``in_place=True``, where an array is kept (when it is).
        ValueError: where there is no such ``vmap_method``, or, when traced, where the aliases
            name what is not there or is of another type.
        NotImplementedError: when traced, under ``vmap`` without a ``vmap_method``.
        DifferentiableCompileError: when traced, where it is differentiated.

    Example:
        >>> import bellhop, jax, numpy as np
        >>> def add(context, out, x, y):
        ...     np.add(x, y, out=out)
        >>> callback = bellhop.buffer_callback(add, jax.ShapeDtypeStruct((2,), float))
        >>> bellhop.qjit(callback)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        Array([4., 6.], dtype=float64)

    The interface is that of ``jax.experimental.buffer_callback``.
    """
    fn = callback
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(
            f"buffer_callback takes a function first and its result types second, got {fn!r}."
        )
    what = f"buffer_callback '{function_name(fn)}'"
    if vmap_method is not None:
        # One call writes into one set of arrays.
        methods = [method for method in ONE_BY_ONE + AT_ONCE if method != ON_THREADS]
        check_vmap_method(vmap_method, what, methods)
    results = result_avals(fn, result_shape_dtypes)
    flavour = BUFFER_WITH_EFFECTS if has_side_effect else BUFFER

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = flatten_arguments(flavour.name, fn, args, kwargs)
        target = flavour.target(
            fn,
            in_tree,
            results,
            vmap_method=vmap_method,
            aliases=_check_aliases(what, input_output_aliases or {}, leaves, results[0]),
            command_buffer_compatible=command_buffer_compatible,
            in_place=in_place,
        )
        return flavour.bind(target, leaves)

    # It has not the signature of the function, which takes context and outputs as well.
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _check_aliases(
    label: str,
    aliases: Mapping[int, int],
    arguments: Sequence[Any],
    results: Sequence[ShapedArray],
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(sorted((int(argument), int(result)) for argument, result in aliases.items()))
    for argument, result in pairs:
        where = f"{label} has input_output_aliases with {argument}: {result}"
        if not 0 <= argument < len(arguments):
            raise ValueError(f"{where}, and its arguments are numbered in [0, {len(arguments)}).")
        if not 0 <= result < len(results):
            raise ValueError(f"{where}, and its results are numbered in [0, {len(results)}).")
        aval = jax.typeof(arguments[argument])
        if (aval.shape, aval.dtype) != (results[result].shape, results[result].dtype):
            raise ValueError(
                f"{where}: that argument is {describe_value(aval)} and that result "
                f"{describe_value(results[result])}, and what shares memory is of one type."
            )
    if len({result for _, result in pairs}) < len(pairs):
        raise ValueError(
            f"{label} has input_output_aliases {dict(pairs)}, two for one result. Give each result "
            "one argument at most."
        )
    return pairs
