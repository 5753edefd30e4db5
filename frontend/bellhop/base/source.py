"""Source locations in user code, and names of callables, for messages."""

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

from bellhop.base.exception_attributes import find_hidden_exception

# The folder of bellhop.
PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OWN = PACKAGE + os.sep
_JAX = os.path.dirname(jax.__file__) + os.sep

# User's file and line, by file and line of AutoGraph's generated code.
_generated: dict[str, dict[int, tuple[str, int]]] = {}


def register_generated_file(file: str, lines: dict[int, tuple[str, int]]) -> None:
    """Record the user's location of each line in a generated file.

    Args:
        file: name of the generated file.
        lines: the user's file and line, by generated line.
    """
    if lines:
        _generated[file] = lines


def original_location(file: str, line: int) -> str | None:
    """Map a line of AutoGraph's generated code to ``file:line`` in the user's source.

    Lines that AutoGraph inserted map to the preceding user line.

    Args:
        file: name of a file.
        line: line in it.

    Returns:
        None if the file was not generated.
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
    """Return ``file:line`` of the innermost frame in user code.

    Frames of Bellhop, JAX, PennyLane and NumPy are skipped.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_user_file(file):
            return original_location(file, frame.f_lineno) or f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "<unknown>"


def callable_site(function: Callable[..., Any]) -> str:
    """Return a user function's definition site, or the call site of a library's."""
    site = definition_site(function)
    has_line = site.rpartition(":")[2].isdigit()
    return site if has_line and _is_user_file(site) else user_site()


@functools.lru_cache(maxsize=4096)
def make_call_from_site(site: str) -> Callable[..., Any]:
    """Return a function that makes calls which appear to come from a user's line.

    Args:
        site: ``file:line``.

    Returns:
        ``call(function, args, kwargs)``, whose frame has this file and line.
    """
    file, _, line = site.rpartition(":")
    tree = ast.parse("lambda function, args, kwargs: function(*args, **kwargs)", mode="eval")
    ast.increment_lineno(tree, int(line) - 1 if line.isdigit() else 0)
    call: Callable[..., Any] = eval(compile(tree, file or "<unknown>", "eval"))
    return call


def error_site(error: BaseException) -> str:
    """Return ``file:line`` of the innermost user frame in an exception's traceback."""
    site, traceback = "<unknown>", find_hidden_exception(error).__traceback__
    while traceback is not None:
        file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        if _is_user_file(file):
            site = original_location(file, line) or f"{file}:{line}"
        traceback = traceback.tb_next
    return site


# Called for each frame around each gate.
@functools.lru_cache(maxsize=1024)
def _is_user_file(file: str) -> bool:
    return not file.startswith(_library_prefixes())


@functools.cache
def _library_prefixes() -> tuple[str, ...]:
    """Return the path prefixes of library files, which are not user code.

    Installed folders are compared, since a user's folder may have a library's name.
    """
    # `find_spec` does not import the package.
    specs = map(importlib.util.find_spec, ("autoray", "malt", "numpy", "pennylane"))
    folders = (os.path.dirname(spec.origin) + os.sep for spec in specs if spec and spec.origin)
    return (_OWN, _JAX, *folders, contextlib.__file__, functools.__file__)


def warn_user(message: str) -> None:
    """Issue a `UserWarning` at the user's line."""
    file, _, line = user_site().rpartition(":")
    warnings.warn_explicit(
        message, UserWarning, file or "<unknown>", int(line) if line.isdigit() else 0
    )


def function_name(function: Callable[..., Any]) -> str:
    """Return a callable's name; of a partial, the wrapped function's name."""
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
    """Return ``file:line`` of a callable's definition, or its qualified name."""
    # Wrappers and partial functions can be nested in either order.
    function = inspect.unwrap(function)
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        return qualified_name(function)
    file, line = code.co_filename, code.co_firstlineno
    return original_location(file, line) or f"{file}:{line}"


def set_function_name(function: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """Give `run` the name of `function`, for JAX's errors.

    Args:
        function: the user's function.
        run: function that traces it.

    Returns:
        `run`.
    """
    run.__name__ = function_name(function)
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run


def name_with_site(function: Callable[..., Any]) -> str:
    """Return a function's name and definition site, for errors."""
    return f"'{function_name(function)}' ({definition_site(function)})"


def describe_derived_function(label: str, function: Callable[..., Any]) -> str:
    """Return a description such as ``grad of 'f' (file:line)``, for errors.

    Args:
        label: name of the transformation.
        function: the transformed function.
    """
    return f"{label} of {name_with_site(function)}"
