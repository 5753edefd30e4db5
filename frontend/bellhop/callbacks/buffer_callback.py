"""`buffer_callback`: a Python function that writes its results into output arrays."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.core import ShapedArray

from bellhop.arguments.declared_types import result_avals
from bellhop.base.option_checks import check_mapping
from bellhop.base.public_function import public_function
from bellhop.base.source import function_name
from bellhop.callbacks.callback_type import Pure, SideEffects
from bellhop.callbacks.vmap_method import AT_ONCE, ONE_BY_ONE, check_vmap_method
from bellhop.compiler.buffer_callback_target import BufferCallbackTarget
from bellhop.compiler.callback_target import ON_THREADS, describe_value, flatten_arguments

BUFFER = Pure("buffer_callback", target_type=BufferCallbackTarget)
BUFFER_WITH_EFFECTS = SideEffects(
    "buffer_callback", primitive="buffer_callback_with_effects", target_type=BufferCallbackTarget
)


@public_function
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
    """Make a Python function that writes into output arrays callable from programs.

    The function is called as ``fn(context, out, *args, **kwargs)`` and must return None.  On the
    CPU ``out`` is a pytree of writable NumPy arrays, initialized with zeros: write them with
    ``out[...] = value`` or ``np.add(x, y, out=out)``.  Arguments are read-only NumPy arrays.  The
    function may keep all arrays: the program copies the outputs when the function returns.

    With ``in_place=True`` the arrays are the program's own memory, and nothing is copied.  ``out``
    is then not initialized and may hold values of other computations; elements that the function
    does not write keep them.  The arrays are valid during the call only: the function must not
    keep an array or a view of it, for instance in a list, a closure or an exception.  A call that
    keeps an array raises an error, but the program uses its memory for other values, and reading it
    may crash the process.

    In a region on a GPU ``out`` and arguments are the buffers of
    ``jax.experimental.buffer_callback`` on the device.

    Args:
        callback: the function ``fn``.
        result_shape_dtypes: shapes and dtypes of the results: a pytree of result types as in
            ``pure_callback``.
        has_side_effect: whether the program must make the call even if its results are not used.
            A ``qjit`` program makes it in program order with all other calls that have side
            effects.  In a plain ``jax.jit``, and in a region on a GPU, the order is not defined.
        vmap_method: behaviour under ``vmap``, one of the methods of ``pure_callback`` except
            ``"sequential_threadpool"``; None: ``vmap`` raises an error.
        input_output_aliases: pairs of an argument's index and the index of the result that shares
            its memory, both among the pytree leaves.  The argument is then writable and holds the
            result; the program copies it before the call if it needs the old value.
        command_buffer_compatible: on a GPU, whether the call may be recorded in a command buffer
            and replayed; ignored on the CPU.
        in_place: whether the function reads and writes the program's own memory, on the CPU.

    Returns:
        a function from pytrees of arrays to results of the types ``result_shape_dtypes``.

    Raises:
        TypeError: if ``callback`` is not callable, or is a class; at the call, if it does not
            return None.
        ResultTypeError: (a TypeError) if the result types do not determine shapes and dtypes.
        RuntimeError: at the call, with ``in_place=True``, if the function keeps an array.
        ValueError: if ``vmap_method`` is not supported; when traced, if an index in
            ``input_output_aliases`` is out of range, argument and result have different types, or
            two arguments share the memory of one result.
        NotImplementedError: when traced, under ``vmap`` without a ``vmap_method``.
        DifferentiableCompileError: when traced, if an argument is differentiated, except for
            functions without side effects whose results are all integers or booleans.

    Example:
        >>> import bellhop, jax, numpy as np
        >>> def add(context, out, x, y):
        ...     np.add(x, y, out=out)
        >>> callback = bellhop.buffer_callback(add, jax.ShapeDtypeStruct((2,), float))
        >>> bellhop.qjit(callback)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        Array([4., 6.], dtype=float64)

    The interface is the interface of ``jax.experimental.buffer_callback``.
    """
    fn = callback
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(
            f"buffer_callback takes a function first and its result types second, got {fn!r}. "
            "Pass the function: buffer_callback(fn, result_types)."
        )
    what = f"buffer_callback '{function_name(fn)}'"
    if vmap_method is not None:
        # One call writes into one set of arrays.
        methods = [method for method in ONE_BY_ONE + AT_ONCE if method != ON_THREADS]
        check_vmap_method(vmap_method, what, methods)
    if input_output_aliases is not None:
        check_mapping(what, "input_output_aliases", input_output_aliases, "{0: 0}")
    results = result_avals(fn, result_shape_dtypes)
    callback_type = BUFFER_WITH_EFFECTS if has_side_effect else BUFFER

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the user's function and return the output arrays, or their tracers.

        While JAX traces, the call is added to the program; outside of tracing it is made at once.
        """
        leaves, in_tree = flatten_arguments(callback_type.name, fn, args, kwargs)
        target = callback_type.target(
            fn,
            in_tree,
            results,
            vmap_method=vmap_method,
            aliases=_check_aliases(what, input_output_aliases or {}, leaves, results[0]),
            command_buffer_compatible=command_buffer_compatible,
            in_place=in_place,
        )
        return callback_type.bind(target, leaves)

    # The signature differs from the function's, which takes context and outputs as well.
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _check_aliases(
    label: str,
    aliases: Mapping[int, int],
    arguments: Sequence[Any],
    results: Sequence[ShapedArray],
) -> tuple[tuple[int, int], ...]:
    """Check the argument-result pairs that share memory, and sort them.

    Args:
        label: description of the callback, for errors.
        aliases: the option ``input_output_aliases``: index of the result that shares memory with an
            argument, by argument index, both among the pytree leaves.
        arguments: leaves of the arguments.
        results: types of the result leaves.

    Returns:
        sorted pairs of argument index and result index.

    Raises:
        ValueError: if an index is out of range, the two types differ, or two arguments share the
            memory of one result.
    """
    pairs = tuple(sorted((int(argument), int(result)) for argument, result in aliases.items()))
    for argument, result in pairs:
        alias = f"{label}: input_output_aliases has {argument}: {result}"
        if not 0 <= argument < len(arguments):
            raise ValueError(
                f"{alias}, expected the index of one of {len(arguments)} arguments. Count the "
                "leaves of the arguments from 0."
            )
        if not 0 <= result < len(results):
            raise ValueError(
                f"{alias}, expected the index of one of {len(results)} results. Count the leaves "
                "of the results from 0."
            )
        aval = jax.typeof(arguments[argument])
        if (aval.shape, aval.dtype) != (results[result].shape, results[result].dtype):
            raise ValueError(
                f"{alias}: the argument has type {describe_value(aval)} and the result type "
                f"{describe_value(results[result])}, expected equal types. Pass "
                "an argument of the result's type."
            )
    if len({result for _, result in pairs}) < len(pairs):
        raise ValueError(
            f"{label}: input_output_aliases {dict(pairs)} has two arguments for one result. Give "
            "each result at most one argument."
        )
    return pairs
