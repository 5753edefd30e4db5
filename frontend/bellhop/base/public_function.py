"""Checks of the arguments of public functions, and tracebacks with the user's frames only."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from bellhop._jax.private import hide_frames
from bellhop.errors import unknown_option_error

F = TypeVar("F", bound=Callable[..., Any])


@overload
def public_function(function: F) -> F: ...
@overload
def public_function(
    *, usage: str = "", jax_function: Callable[..., Any] | None = None
) -> Callable[[F], F]: ...
def public_function(
    function: Any = None, *, usage: str = "", jax_function: Callable[..., Any] | None = None
) -> Any:
    """Decorate a public function to check its arguments and shorten its tracebacks.

    An unknown keyword, or too many positional arguments, raise a `TypeError` that lists the
    function's parameters, which Python's own error does not. Frames of Bellhop and JAX are removed
    from the tracebacks of all errors.

    Args:
        function: the function or method; if it takes any keywords (``**kwargs``), or any number of
            positional arguments, these are not checked here.
        usage: a sentence that shows a right call, for the error for too many arguments; by default
            it lists the options that are passed by keyword only.
        jax_function: JAX's function of the same purpose, which compiled programs may call too. It
            is named in the error for an option that Bellhop's function lacks and JAX's has.

    Returns:
        a wrapper of `function`; without `function`, a decorator.
    """
    if function is None:
        return functools.partial(_decorate, usage=usage, jax_function=jax_function)
    return _decorate(function, usage, jax_function)


def hide_internal_frames(function: F) -> F:
    """Decorate a function to remove frames of Bellhop and JAX from its tracebacks.

    Used for functions that Bellhop returns to users.

    Args:
        function: function that calls the user's function. Its arguments are not checked.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the function; hide the frames of Bellhop and JAX in its errors."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return cast(F, call)


def _advise_on_jax_option(jax_function: Callable[..., Any] | None, option: str) -> str:
    """Return the advice to call ``jax_function`` if it has an option; else an empty string."""
    if jax_function is None:
        return ""
    parameter = inspect.signature(jax_function).parameters.get(option)
    # The function and its arguments have no default, and other names in Bellhop.
    if parameter is None or parameter.default is parameter.empty:
        return ""
    return (
        f"Use jax.{jax_function.__name__}, which has this option and can be called in a qjit "
        "function."
    )


def _decorate(function: F, usage: str, jax_function: Callable[..., Any] | None) -> F:
    """Wrap a public function, as `public_function` says.

    Args:
        function: the public function.
        usage: a sentence that shows a right call; may be empty.
        jax_function: JAX's function of the same purpose, or None.
    """
    name = function.__name__
    # The instance of a method is not an option.
    parameters = [
        each for each in inspect.signature(function).parameters.values() if each.name != "self"
    ]
    is_method = len(parameters) < len(inspect.signature(function).parameters)
    kinds = {each.kind for each in parameters}
    names = [each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY]
    positional = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    keyword_only = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    advice = usage
    if keyword_only and not usage:
        advice = f"Pass options by keyword: {', '.join(keyword_only)}."
    known = None if inspect.Parameter.VAR_KEYWORD in kinds else frozenset(names)
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        """Check the arguments and call the public function; hide frames in its errors."""
        try:
            if known is not None and not known.issuperset(kwargs):
                unknown = next(each for each in kwargs if each not in known)
                raise unknown_option_error(
                    name, unknown, names, _advise_on_jax_option(jax_function, unknown)
                )
            if not takes_any and len(args) - is_method > len(positional):
                expected = (
                    f"at most {len(positional)}: {', '.join(positional)}" if positional else "none"
                )
                raise TypeError(
                    f"{name}: got {len(args) - is_method} positional arguments, expected "
                    f"{expected}.{advice and ' ' + advice}"
                )
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return cast(F, checked)
