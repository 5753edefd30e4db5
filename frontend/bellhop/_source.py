"""Where in the user's code something happens, and what a function is called."""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax

_OWN = os.path.dirname(__file__) + os.sep
_JAX = os.path.dirname(jax.__file__) + os.sep
_HIDDEN = (
    os.sep + "pennylane" + os.sep,
    os.sep + "malt" + os.sep,
    os.sep + "contextlib.py",
    os.sep + "functools.py",
)

# Lines of code that autograph generated, and the lines of the user's that they are from.
_generated: dict[tuple[str, int], tuple[str, int]] = {}


def register_generated(lines: dict[tuple[str, int], tuple[str, int]]) -> None:
    """Make lines of generated code known by the lines that they are from."""
    _generated.update(lines)


def generated_line(file: str, line: int) -> str | None:
    """Return ``file:line`` that a line of generated code is from; None for other code."""
    origin = _generated.get((file, line))
    return None if origin is None else f"{origin[0]}:{origin[1]}"


def user_site() -> str:
    """Return ``file:line`` of the innermost frame that is neither ours nor JAX's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN, _JAX)) and not any(part in file for part in _HIDDEN):
            file, line = _generated.get((file, frame.f_lineno), (file, frame.f_lineno))
            return f"{file}:{line}"
        frame = frame.f_back
    return "<unknown>"


def warn_user(message: str) -> None:
    """Warn at the user's line."""
    file, _, line = user_site().rpartition(":")
    warnings.warn_explicit(
        message, UserWarning, file or "<unknown>", int(line) if line.isdigit() else 0
    )


def function_name(function: Callable[..., Any]) -> str:
    """Return the name that a user knows a callable by."""
    if isinstance(function, functools.partial | jax.tree_util.Partial):
        return function_name(function.func)
    return getattr(function, "__name__", None) or type(function).__name__


def qualified_name(function: Callable[..., Any]) -> str:
    """Return ``module.qualname`` of a callable."""
    if isinstance(function, functools.partial | jax.tree_util.Partial):
        return qualified_name(function.func)
    qualname = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{qualname}" if module else qualname


def definition_site(function: Callable[..., Any]) -> str:
    """Return ``file:line`` where a callable is defined, or where it is from."""
    function = getattr(function, "func", function)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if code is None:
        return qualified_name(function)
    return f"{code.co_filename}:{code.co_firstlineno}"
