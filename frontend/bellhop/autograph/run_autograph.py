"""`run_autograph`: conversion of a function's Python control flow."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from bellhop.autograph.converted_calls import (
    call_converted,
    is_user_function,
    transformer,
    with_autograph_modules,
    with_converted_function,
)
from bellhop.base.public_function import public_function
from bellhop.base.source import definition_site, function_name
from bellhop.errors import AutoGraphError
from bellhop.tracing.options import check_modules
from bellhop.tracing.state import override_trace_state


@public_function
def run_autograph(fn: Callable[..., Any], *modules: str) -> Any:
    """Convert the Python control flow of a function and of the functions it calls.

    ``if``, ``for`` and ``while`` on traced values are compiled, including ``break``, ``continue``
    and early ``return``; so are conditional expressions, ``and``, ``or``, ``not``, ``assert`` and
    assignments to array elements. ``for`` over a range or an array is always compiled. Library
    functions are not converted. The interface is the same as in Catalyst.

    Args:
        fn: a function, a method, or a QNode.
        modules: names of library modules to convert too.

    Returns:
        the converted function, or a QNode of it.

    Raises:
        AutoGraphError: if the source is not available or not supported; names the function.
        TypeError: if ``fn`` is not callable, or ``modules`` are not names of modules.

    Example:
        >>> import bellhop, jax
        >>> def f(x):
        ...     if x > 5:
        ...         return x**2
        ...     return x**3
        >>> jax.jit(bellhop.run_autograph(f))(2.0)
        Array(8., dtype=float64)
    """
    if not callable(fn):
        raise TypeError(f"run_autograph takes a function, got {fn!r} of type {type(fn).__name__}.")
    check_modules(f"run_autograph of '{function_name(fn)}'", modules)

    def convert(function: Callable[..., Any]) -> Callable[..., Any]:
        """Convert a user's function; wrap a library callable to convert user functions in it.

        Raises:
            AutoGraphError: if the function cannot be converted; names the function.
        """
        try:
            run = (
                transformer.convert(function)
                if is_user_function(function)
                else _wrap_call(function)
            )
        except Exception as error:
            raise AutoGraphError(
                f"'{function_name(function)}' ({definition_site(function)}) cannot be converted "
                f"by autograph: {error}"
            ) from error
        return with_autograph_modules(modules, run) if modules else run

    return with_converted_function(fn, convert)


def _wrap_call(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a callable that is not a user's function, such as ``jax.grad(f)``.

    When the wrapper is called, the user's functions that the callable contains are converted.

    Raises:
        AutoGraphError: if it is a function whose source is not available.
    """
    if inspect.isfunction(fn) and fn.__code__.co_filename == "<string>":
        raise AutoGraphError(
            "the source of the function is not available. Define the function in a file."
        )

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the wrapped callable and convert the user's functions in it."""
        with override_trace_state(converts=True):
            return call_converted(fn, args, kwargs)

    call.ag_unconverted = fn  # type: ignore[attr-defined]
    return call


@public_function
def autograph_source(fn: Callable[..., Any]) -> str:
    """Return the source code that autograph generated for a function.

    Args:
        fn: the function, converted or not, a QNode or a qjit function. Functions that a converted
            function calls are converted at their first call.

    Raises:
        AutoGraphError: if the function was not converted.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit(autograph=True)
        ... def f(x):
        ...     return -x if x < 0 else x
        >>> f(-2.0)
        Array(2., dtype=float64)
        >>> "if_exp" in bellhop.autograph_source(f)
        True
    """
    function = fn
    for attribute in ("user_function", "func", "ag_unconverted"):
        function = getattr(function, attribute, function)
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    source = transformer.source(function) if hasattr(function, "__code__") else None
    if source is None:
        raise AutoGraphError(
            f"{fn!r} was not converted by autograph. Compile the function with "
            "qjit(autograph=True), and call the compiled function once."
        )
    return source
