"""Where in the user's code something happens, and what a function is called."""

import ast
import contextlib
import functools
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax

# The folder of bellhop.
PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OWN = PACKAGE + os.sep
_JAX = os.path.dirname(jax.__file__) + os.sep

# By file and line of code that autograph generated, the lines of the user's that these are from.
_generated: dict[str, dict[int, tuple[str, int]]] = {}


def register_generated_file(file: str, lines: dict[int, tuple[str, int]]) -> None:
    """Make lines of a generated file known by the lines that they are from."""
    if lines:
        _generated[file] = lines


def original_location(file: str, line: int) -> str | None:
    """Return ``file:line`` that a line of generated code is from; None for other code.

    What autograph put there itself is from the line that comes before it.
    """
    lines = _generated.get(file)
    if lines is None:
        return _notebook_location(file, line)
    before = max((known for known in lines if known <= line), default=min(lines))
    origin = lines.get(line, lines[before])
    return f"{origin[0]}:{origin[1]}"


def _notebook_location(file: str, line: int) -> str | None:
    """Return ``In[3]:14`` for a line of a notebook's cell, or None for code in a file."""
    if "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    cell = None if shell is None else shell.compile.format_code_name(file)
    return None if cell is None else f"{cell[1]}:{line}"


def user_site() -> str:
    """Return ``file:line`` of the innermost frame that is neither ours nor JAX's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_user_file(file):
            return original_location(file, frame.f_lineno) or f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "<unknown>"


def callable_site(function: Callable[..., Any]) -> str:
    """Return ``file:line`` of a callable of the user's; of a library's, where it is used now."""
    site = definition_site(function)
    has_line = site.rpartition(":")[2].isdigit()
    return site if has_line and _is_user_file(site) else user_site()


@functools.lru_cache(maxsize=4096)
def make_call_from_site(site: str) -> Callable[..., Any]:
    """Return what calls a function as the user's line does, so that all who look find that line.

    Args:
        site: ``file:line``.

    Returns:
        a function of the function, a tuple of its arguments with a position, and a dictionary of
        those with a name.
    """
    file, _, line = site.rpartition(":")
    tree = ast.parse("lambda function, args, kwargs: function(*args, **kwargs)", mode="eval")
    ast.increment_lineno(tree, int(line) - 1 if line.isdigit() else 0)
    call: Callable[..., Any] = eval(compile(tree, file or "<unknown>", "eval"))
    return call


def error_site(error: BaseException) -> str:
    """Return ``file:line`` of the user's innermost frame that an exception came through."""
    site, traceback = "<unknown>", error.__traceback__
    while traceback is not None:
        file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        if _is_user_file(file):
            site = original_location(file, line) or f"{file}:{line}"
        traceback = traceback.tb_next
    return site


# Asked for each frame around each gate.
@functools.lru_cache(maxsize=1024)
def _is_user_file(file: str) -> bool:
    return not file.startswith(_library_prefixes())


@functools.cache
def _library_prefixes() -> tuple[str, ...]:
    """Return what the names of files begin with that are not the user's.

    A folder of the user's may be called as a library is.
    """
    # To find a package is not to import it.
    specs = map(importlib.util.find_spec, ("autoray", "malt", "numpy", "pennylane"))
    folders = (os.path.dirname(spec.origin) + os.sep for spec in specs if spec and spec.origin)
    return (_OWN, _JAX, *folders, contextlib.__file__, functools.__file__)


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
    # Wrappers and partial functions stand around each other in either order.
    function = inspect.unwrap(function)
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        return qualified_name(function)
    file, line = code.co_filename, code.co_firstlineno
    return original_location(file, line) or f"{file}:{line}"


def set_function_name(function: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """Let JAX's errors name a function where they would name ``run``, in which it is traced."""
    run.__name__ = function_name(function)
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run


def name_with_site(function: Callable[..., Any]) -> str:
    """Return how errors name a function of the user's, with its line."""
    return f"'{function_name(function)}' ({definition_site(function)})"


def describe_derived_function(label: str, function: Callable[..., Any]) -> str:
    """Return how errors name what is made of a function, such as a derivative."""
    return f"{label} of {name_with_site(function)}"
