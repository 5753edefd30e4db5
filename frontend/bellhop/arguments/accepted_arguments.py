"""Checks that a user's function accepts the arguments with which Bellhop calls it.

The signature is compared before the call, so that the error names the construct which calls the
function, and a ``TypeError`` from inside of the function stays the function's own.
"""

import difflib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable
from types import FunctionType
from typing import Any

from bellhop.base.source import function_name
from bellhop.errors import suggest_name

# Options of callbacks: a misspelled option is an argument of the function.
_CALLBACK_OPTIONS = ("asynchronous", "ordered", "partitioned", "result_type", "vmap_method")
# Name of the option `vmap_method` in older versions of JAX.
_FORMER_OPTIONS = {"vectorized": "vmap_method"}


def check_call(
    where: str, function: Callable[..., Any], count: int, names: Collection[str], advice: str = ""
) -> None:
    """Raise an error if a call of a callback does not match the function's signature.

    Used when a callback is traced, so that the error comes before the program runs.

    Args:
        where: function and call site, for the error.
        function: the function that will be called; callables without a signature, and Python
            functions with an attribute ``__signature__``, are not checked.
        count: number of positional arguments.
        names: names of the keyword arguments.
        advice: further sentences for the error, which begin with a space; or empty.

    Raises:
        TypeError: with Python's message and the function's signature. Suggests an option of
            Bellhop's callbacks for an unknown keyword.
    """
    mismatch = _find_mismatch(function, count, names)
    if mismatch is not None:
        signature, error = mismatch
        raise TypeError(
            f"{where}: the arguments do not match: {describe_mismatch(signature, names, error)}. "
            f"The function takes {signature}.{advice}"
            f"{''.join(map(_suggest_option, _find_unknown_keywords(signature, names)))}"
        )


def describe_mismatch(signature: inspect.Signature, names: Iterable[str], error: TypeError) -> str:
    """Describe why a call does not match a signature, for an error.

    If keyword arguments are unknown, the description names them: ``Signature.bind`` may name a
    missing argument although the fault is a misspelled keyword. Else it is the message of `error`.

    Args:
        signature: the signature of the called function.
        names: names of the call's keyword arguments.
        error: the exception of ``signature.bind``.
    """
    unknown = _find_unknown_keywords(signature, names)
    plural = "s" * (len(unknown) > 1)
    return (
        f"got the unknown keyword{plural} {', '.join(map(repr, unknown))}"
        if unknown
        else str(error)
    )


def _find_unknown_keywords(signature: inspect.Signature, names: Iterable[str]) -> list[str]:
    """Return the keyword names that a signature does not accept, sorted.

    The list is empty if the signature has ``**kwargs``.
    """
    kinds = {each.kind for each in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return []
    return sorted(set(names) - signature.parameters.keys())


def _suggest_option(name: str) -> str:
    """Suggest a callback option whose name is similar to an unknown keyword.

    For example ``vmap_metod`` and JAX's former ``vectorized`` suggest ``vmap_method``.

    Args:
        name: the unknown keyword.

    Returns:
        a sentence for an error, which begins with a space; an empty string if no name is similar.
    """
    similar = difflib.get_close_matches(name, [*_CALLBACK_OPTIONS, *_FORMER_OPTIONS], n=1)
    known = [_FORMER_OPTIONS.get(each, each) for each in similar]
    return "".join(suggest_name(each, known) for each in known)


def check_not_transformation(
    construct: str, function: Callable[..., Any], args: Collection[Any]
) -> None:
    """Raise an error for ``qjit(bellhop.grad)(f)``: the order is wrong.

    The user meant ``qjit(bellhop.grad(f))``.

    Args:
        construct: name of the public function that compiles, such as ``"qjit"``.
        function: the function that was compiled.
        args: positional arguments of the call, which JAX rejected.

    Raises:
        TypeError: if `function` is a public function of Bellhop or JAX, and its only argument is a
            function.
    """
    name = function_name(function)
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    is_public = package in ("bellhop", "jax") and hasattr(sys.modules[package], name)
    if is_public and len(args) == 1 and all(map(callable, args)):
        raise TypeError(
            f"{construct} of {package}.{name}: the argument is a function, expected arrays. "
            f"Transform the function first: {construct}({package}.{name}(f)), or @{construct} "
            f"above @{package}.{name}."
        )


def check_parameters(
    where: str,
    role: str,
    function: Callable[..., Any],
    count: int,
    passed: str,
    names: Collection[str] = (),
) -> None:
    """Raise an error if a function, such as a loop body, has wrong parameters.

    Args:
        where: construct that calls the function, for the error.
        role: description of the function, such as ``"the body"``, for the error.
        function: callable; without a signature, or a Python function with ``__signature__``, it is
            not checked.
        count: number of positional arguments that Bellhop passes.
        passed: the arguments in words, such as ``"the index and 2 carried values"``.
        names: names of the keyword arguments that Bellhop passes.

    Raises:
        TypeError: naming the construct, the function's signature and the expected arguments.
    """
    mismatch = _find_mismatch(function, count, names)
    if mismatch is not None:
        signature, _ = mismatch
        total = count + len(names)
        raise TypeError(
            f"{where}: {role} takes {signature}, expected {format_count(total, 'parameter')}: "
            f"{passed}. Declare the parameters in this order."
        )


def get_decorated_body(construct: str, given: tuple[Any, ...], example: str) -> Callable[..., Any]:
    """Return the loop body, the only argument of a decorator's call.

    The decorator is, for example, ``for_loop(0, n, 1)``.

    Args:
        construct: name of the public function that made the decorator, for the error.
        given: all arguments of the decorator's call.
        example: the decorator as Python code, for the error.

    Raises:
        TypeError: unless `given` is one function. For example, after ``@while_loop`` without
            arguments, `given` are the carried values of the loop.
    """
    if len(given) == 1 and callable(given[0]):
        body: Callable[..., Any] = given[0]
        return body
    types = ", ".join(type(each).__name__ for each in given) or "nothing"
    raise TypeError(
        f"{construct}: the decorator takes the body, expected a function, got {types}. "
        f"Write {example} above the body, and call the decorated body."
    )


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: ``"1 value"``, ``"2 values"`` or ``"no values"``."""
    return f"{count or 'no'} {noun}{'s' * (count != 1)}"


def _find_mismatch(
    function: Callable[..., Any], count: int, names: Collection[str]
) -> tuple[inspect.Signature, TypeError] | None:
    """Return a function's signature and Python's error if the function rejects a call.

    Args:
        function: the function, which is not called.
        count: number of positional arguments.
        names: names of the keyword arguments.

    Returns:
        the signature and a TypeError that was not raised; None if the arguments fit, the signature
        is not known, or a Python function has an attribute ``__signature__``.
    """
    if isinstance(function, FunctionType):
        # ``inspect.signature`` takes a fifth of the time to trace a callback.
        code = function.__code__
        if code.co_argcount == count and code.co_kwonlyargcount == 0 and not names:
            return None
        if hasattr(function, "__signature__"):
            # ``__signature__`` is documentation: it may describe the wrapped function.
            return None
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        return signature, error
    return None
