"""run_autograph: a function whose Python control flow becomes the program's."""

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
from bellhop.base.source import definition_site, function_name
from bellhop.errors import AutoGraphError
from bellhop.tracing.options import check_modules
from bellhop.tracing.state import override_trace_state


def run_autograph(fn: Callable[..., Any], *modules: str) -> Any:
    """Convert the Python control flow of a function, and of what it calls.

    ``if``, ``for`` and ``while`` on values that the program computes become the program's own,
    with ``break``, ``continue`` and early ``return``; so do conditional expressions, ``and``,
    ``or``, ``not``, ``assert`` and assignments to elements of arrays.  ``for`` over a range or an
    array is a loop of the program in any case.  What libraries define is not converted.

    Args:
        fn: a function, a method, or a QNode.
        modules: names of modules to convert although a library defines them.

    Returns:
        the converted function, or a QNode of it.

    Raises:
        AutoGraphError: where the source cannot be had or is not understood; names the function.
        TypeError: where ``fn`` is no function, or ``modules`` has what is no module's name.

    Example:
        >>> import bellhop, jax
        >>> def f(x):
        ...     if x > 5:
        ...         return x**2
        ...     return x**3
        >>> jax.jit(bellhop.run_autograph(f))(2.0)
        Array(8., dtype=float64)

    The interface is that of Catalyst's ``run_autograph``.
    """
    if not callable(fn):
        raise TypeError(f"run_autograph takes a function, got {fn!r} of type {type(fn).__name__}.")
    check_modules(f"run_autograph of '{function_name(fn)}'", modules)

    def converted(function: Callable[..., Any]) -> Callable[..., Any]:
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

    return with_converted_function(fn, converted)


def _wrap_call(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls what is no function of the user's, such as a gradient."""
    if inspect.isfunction(fn) and fn.__code__.co_filename == "<string>":
        raise AutoGraphError("its source cannot be had")

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with override_trace_state(converts=True):
            return call_converted(fn, args, kwargs)

    call.ag_unconverted = fn  # type: ignore[attr-defined]
    return call


def autograph_source(fn: Callable[..., Any]) -> str:
    """Return the source that a function was converted to.

    Args:
        fn: the function, converted or not, a QNode or a qjit function.  One that a converted
            function calls is itself converted when it is first called.

    Raises:
        AutoGraphError: where it was not converted.

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
            f"{fn!r} was not converted by autograph. Compile it with qjit(autograph=True), and "
            "call it, or what calls it, once."
        )
    return source
