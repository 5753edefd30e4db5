"""Python functions by name, as another process finds them."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from bellhop.errors import CompileError


def name_of(function: Any, what: str) -> str:
    """Return ``module:qualname`` of a function or class.

    Args:
        function: it.
        what: what it is, for errors.

    Raises:
        CompileError: where that name does not lead to it in another process.
    """
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", None)
    if module is None or qualname is None:
        reason = "it has no name"
    elif module == "__main__":
        reason = "it is defined in the main script, which no other process can import"
    else:
        try:
            found = _at(module, qualname)
        except (ImportError, AttributeError, ValueError):
            reason = f"{module}.{qualname} cannot be imported"
        else:
            if _is_or_wraps(found, function):
                return f"{module}:{qualname}"
            reason = f"{module}.{qualname} is something else"
    raise CompileError(
        f"{what} cannot be saved: {reason}. Define it at the top level of a module, so that "
        "another process finds it by its name."
    )


def function_at(name: str) -> Any:
    """Return the function or class that ``name_of`` gave a name."""
    module, _, qualname = name.partition(":")
    return _at(module, qualname)


def encode_function(function: Callable[..., Any], what: str) -> dict[str, Any]:
    """Return how another process makes a callback's function.

    Objects that say by ``aot_arguments`` what they are made from are made anew.

    Raises:
        CompileError: where another process cannot.
    """
    if isinstance(function, functools.partial):
        raise CompileError(
            f"{what} cannot be saved: it is a functools.partial. Define a function at the top "
            "level of a module."
        )
    arguments = getattr(function, "aot_arguments", None)
    if arguments is not None:
        return {"make": name_of(type(function), what), "arguments": list(arguments)}
    name = name_of(function, what)
    # A decorated function is known by the name of the callback that it became.
    return {"name": name, "wrapped": function_at(name) is not function}


def decode_function(encoded: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that ``encode_function`` wrote."""
    if "make" in encoded:
        return function_at(encoded["make"])(*encoded["arguments"])
    found = function_at(encoded["name"])
    return found.__wrapped__ if encoded["wrapped"] else found


def _at(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def _is_or_wraps(found: Any, function: Any) -> bool:
    return found is function or getattr(found, "__wrapped__", None) is function
