"""`vmap` of hybrid functions."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import jax

from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import describe_derived_function
from bellhop.base.value_checks import check_dictionary_keys, check_no_measurements
from bellhop.transformations.inline_trace import trace_inline

P = ParamSpec("P")
R = TypeVar("R")


@overload
def vmap(
    fn: Callable[P, R],
    *,
    in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
) -> Callable[P, R]: ...
@overload
def vmap(
    fn: None = None,
    *,
    in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@public_function(
    usage="Pass in_axes by keyword: vmap(fn, in_axes=(0, None)).", jax_function=jax.vmap
)
def vmap(
    fn: Callable[..., Any] | None = None,
    *,
    in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
) -> Any:
    """Map a function over axes of its arguments.

    JAX operations are vectorized. Circuits run once for each element, distributed over the cores;
    callbacks run once for each element, one after another, unless their ``vmap_method`` differs.
    The interface is the same as in JAX and Catalyst.

    Args:
        fn: the function; a QNode, a qjit function or a Python function that calls these.
        in_axes: for each argument its mapped axis, or None; a pytree for a pytree argument; an
            integer for all arguments.
        out_axes: position of the mapped axis in each result; None for a result that is equal for
            all elements.
        axis_size: number of elements, if no argument is mapped; otherwise None.

    Returns:
        the mapped function; without ``fn``, a decorator.

    Raises:
        TypeError: if ``fn`` is not callable; and at the call, for arguments that are not arrays.
        ValueError: at the call, if mapped axes differ in size or do not exist.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> bellhop.qjit(bellhop.vmap(lambda x, y: x * y, in_axes=(0, None)))(jnp.arange(3.0), 2.0)
        Array([0., 2., 4.], dtype=float64)
    """
    if fn is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size)
    if not callable(fn):
        raise TypeError(f"vmap takes a function, got {fn!r} of type {type(fn).__name__}.")
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    options: dict[str, Any] = {"in_axes": axes, "out_axes": out_axes, "axis_size": axis_size}
    # Raise errors of the options early, before the call.
    jax.vmap(fn, **options)

    @functools.wraps(fn)
    @hide_internal_frames
    def call(*args: Any, **kwargs: Any) -> Any:
        """Map `fn` over its arguments with ``jax.vmap``: the function that `vmap` returns.

        Keyword arguments are mapped over their first axis.

        Raises:
            TypeError: naming the function, if ``jax.vmap`` rejects an argument or result.
            ValueError: naming the function, if mapped axes differ in size or do not exist.
        """
        is_within = False

        # JAX's errors name the arguments.
        @functools.wraps(fn)
        def element(*args: Any, **kwargs: Any) -> Any:
            """Call the user's function for one element, with batch tracers of ``jax.vmap``.

            Raises:
                CompileError: if the function returns a measurement.
            """
            nonlocal is_within
            is_within = True
            result = trace_inline(fn)(*args, **kwargs)
            check_no_measurements(describe_derived_function("vmap", fn), result)
            is_within = False
            return result

        try:
            return jax.vmap(element, **options)(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if is_within:
                raise
            check_dictionary_keys(describe_derived_function("vmap", fn), (), args, kwargs)
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{describe_derived_function('vmap', fn)}: {error}") from None

    # The function's annotations describe one element.
    call.__annotations__ = {}
    del call.__wrapped__  # type: ignore[attr-defined]
    # Errors find the function's line through this attribute.
    call.func = fn  # type: ignore[attr-defined]
    return call
