"""vmap: a hybrid function of one element, for all elements of arrays."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import jax

from bellhop.base.source import describe_derived_function
from bellhop.base.value_checks import check_no_measurements
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
def vmap(
    fn: Callable[..., Any] | None = None,
    *,
    in_axes: int | None | Sequence[Any] = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
) -> Any:
    """Map a function over axes of its arguments.

    What JAX computes is computed for all elements at once.  Circuits run once for each element,
    shared among the cores; callbacks too, one after another, unless one asks for another way
    with its ``vmap_method``.

    Args:
        fn: the function; a QNode, a qjit function or any Python function of both.
        in_axes: for each argument the axis that is mapped, or None; a pytree where an argument
            is one; one number for all arguments.
        out_axes: where the mapped axis stands in each result; None for a result that is the
            same for all elements.
        axis_size: how many elements there are, where no argument is mapped.

    Returns:
        the function of all elements; without ``fn``, a decorator.

    Raises:
        ValueError: at the call, where sizes of mapped axes differ, or there is no such axis.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> bellhop.qjit(bellhop.vmap(lambda x, y: x * y, in_axes=(0, None)))(jnp.arange(3.0), 2.0)
        Array([0., 2., 4.], dtype=float64)

    The interface is that of JAX's and Catalyst's ``vmap``.
    """
    if fn is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size)
    if not callable(fn):
        raise TypeError(f"vmap takes a function, got {fn!r} of type {type(fn).__name__}.")
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    options: dict[str, Any] = {"in_axes": axes, "out_axes": out_axes, "axis_size": axis_size}
    # What is wrong with the options alone is told at once.
    jax.vmap(fn, **options)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_within = False

        # JAX's errors name the arguments.
        @functools.wraps(fn)
        def element(*args: Any, **kwargs: Any) -> Any:
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
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{describe_derived_function('vmap', fn)}: {error}") from None

    # The annotations are those of one element.
    call.__annotations__ = {}
    del call.__wrapped__  # type: ignore[attr-defined]
    # Where errors find its line.
    call.func = fn  # type: ignore[attr-defined]
    return call
