"""Calls of functions of other packages that need the values of traced arguments.

The user's line is right, but the function that it calls reads values while the program is traced:
``qml.Superposition(coeffs, bases, ...)`` branches on ``bases``, and ``scipy.special.gamma(x)`` and
``plt.plot(x)`` convert ``x`` to a NumPy array.  Errors then name the called function and its
remedy.
"""

import ast
import contextlib
import importlib
import linecache
import sys
from dataclasses import dataclass
from types import FrameType, ModuleType, TracebackType
from typing import Any

import jax

from bellhop.base.source import is_call_from_site, is_in_installed_package

# JAX's packages with functions of the same names, and how users write the package.
_TWINS = {"numpy": ("jax.numpy", "jnp"), "scipy": ("jax.scipy", "jax.scipy")}
_PACKAGES = {"pennylane": "PennyLane's", "numpy": "NumPy's", "scipy": "SciPy's"}
# Modules of PennyLane that compute with arrays, as NumPy does.
_ARRAY_MODULES = ("pennylane.numpy", "pennylane.math")


@dataclass(frozen=True)
class LibraryCall:
    """A user's call of a library function that needs the value of a traced argument.

    Attributes:
        name: the function as the user wrote it, such as ``"qml.Superposition"``.
        package: name of the top-level package of the function, such as ``"pennylane"``.
        arguments: names of the function's parameters that are traced; empty if they are not known.
        takes_function: whether an argument is a function, such as an objective.
        written: source text of the user's call, such as ``"np.sort(x)"``.
        twin: source text of a call of the JAX function with this name and these arguments, such as
            ``"jnp.sort(x)"``; None if JAX has none.
        site: ``file:line`` of the package that needs the value; empty for PennyLane, NumPy and
            SciPy.
    """

    name: str
    package: str
    arguments: tuple[str, ...]
    takes_function: bool
    written: str
    twin: str | None
    site: str

    def advise(self, *, branches: bool) -> str | None:
        """Return sentences for an error: which value is needed, and what to write instead.

        Args:
            branches: whether Python code of the function branches on the value.

        Returns:
            the sentences, which begin with the function's name; None if the function is NumPy's,
            and JAX has no function with this name.
        """
        plural = "s" * (len(self.arguments) > 1)
        argument = (
            f"the traced argument{plural} {' or '.join(self.arguments)}"
            if self.arguments
            else "a traced argument"
        )
        fault = f"{self.name} {'branches in Python on' if branches else 'needs'} the value of "
        argument += f" ({self.site})" * bool(self.site)
        later = "or call it when the program runs: see help(bellhop.pure_callback)."
        if self.package == "pennylane":
            remedy = "Pass a Python number or a NumPy array, or use another operation."
        elif self.takes_function:
            remedy = f"Call {self.name} outside of the program with a compiled function, {later}"
        elif self.twin is not None:
            imported = f" (import {_TWINS['scipy'][0]})" if self.package == "scipy" else ""
            remedy = f"Write {self.twin}{imported} in place of {self.written}, {later}"
        elif self.package == "numpy":
            return None
        else:
            remedy = f"Call {self.name} outside of the program, {later}"
        return f"{fault}{argument}. {remedy}"


def find_library_call(found: TracebackType) -> LibraryCall | None:
    """Find the library function, called by the user's line, that failed on a tracer.

    Libraries are PennyLane, NumPy, SciPy, and packages that the user installed.

    Args:
        found: the innermost entry of a traceback that is in the user's code.

    Returns:
        the call; None if the line calls no library function, or an array function of PennyLane
        (``qml.math``, ``pennylane.numpy``).
    """
    frames: list[FrameType] = []
    site, installed = "", None
    entry = found.tb_next
    if entry is not None and is_in_installed_package(entry.tb_frame.f_code.co_filename):
        installed = _get_package(entry.tb_frame)
    while entry is not None:
        frame = entry.tb_frame
        if _get_package(frame) in (*_PACKAGES, installed):
            frames.append(frame)
        if _get_package(frame) == installed:
            site = f"{frame.f_code.co_filename}:{entry.tb_lineno}"
        entry = entry.tb_next
    function, module, call = _find_called_function(found)
    if frames:
        package = _get_package(frames[0])
        if frames[0].f_globals.get("__name__", "").startswith(_ARRAY_MODULES):
            return None
    else:
        # NumPy's and SciPy's functions in C have no frames.
        package = (module or "").partition(".")[0]
        if package not in _TWINS:
            return None
    if call is not None and (callable(function) or installed is not None):
        name, written = ast.unparse(call.func), ast.unparse(call)
    elif frames:
        # The first frames may belong to a decorator or a metaclass.
        frame = next((each for each in frames if _find_traced_parameters(each)), frames[0])
        owner = _PACKAGES.get(package, f"{package}'s")
        name = written = f"{owner} {_get_function_name(frame)}"
    else:
        return None
    # Deeper functions of packages that Bellhop does not know have other parameters.
    called = frames if package in _PACKAGES else frames[:1]
    arguments = next(filter(None, map(_find_traced_parameters, called)), ())
    takes_function = bool(frames) and any(map(callable, _get_parameters(frames[0]).values()))
    twin = None if call is None else _find_twin(call, function, module)
    return LibraryCall(name, package, arguments, takes_function, written, twin, site)


def _get_package(frame: FrameType) -> str:
    """Return the name of the top-level package of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _get_function_name(frame: FrameType) -> str:
    """Return the name of a frame's function; of a constructor, the name of its class."""
    name: str = frame.f_code.co_qualname
    owner, _, last = name.rpartition(".")
    return owner if owner and last.startswith("__") else name


def _find_call(found: TracebackType) -> ast.Call | None:
    """Return the syntax tree of the call that an entry of a traceback makes.

    Returns:
        the call; None if the source is not known, or the line does something else.
    """
    code = found.tb_frame.f_code
    line, end_line, column, end_column = list(code.co_positions())[found.tb_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = linecache.getlines(code.co_filename, found.tb_frame.f_globals)[line - 1 : end_line]
    if not lines:
        return None
    # Columns count bytes.
    encoded = [each.encode() for each in lines]
    encoded[-1] = encoded[-1][:end_column]
    encoded[0] = encoded[0][column:]
    try:
        # The parentheses allow line breaks.
        tree = ast.parse(f"({b''.join(encoded).decode()})", mode="eval").body
    except (SyntaxError, UnicodeDecodeError):
        return None
    return tree if isinstance(tree, ast.Call) else None


def _find_called_function(
    found: TracebackType,
) -> tuple[Any, str | None, ast.Call | None]:
    """Find the function that is called at an entry of a traceback, and its module.

    Args:
        found: an entry of a traceback in the user's code.

    Returns:
        the function; the name of the NumPy or SciPy module that exports it, or of the module in
        the user's expression; and the syntax tree of the user's call. Each is None if it is not
        found.
    """
    frame = found.tb_frame
    if not is_call_from_site(frame):
        call = _find_call(found)
        return (None, None, None) if call is None else (*_resolve(call.func, frame), call)
    # Code converted by AutoGraph makes its calls in such a frame, which has the user's line.
    function = frame.f_locals.get("function")
    name = getattr(function, "__name__", None)
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call):
                continue
            is_in_line = node.lineno <= found.tb_lineno <= (node.end_lineno or 0)
            if is_in_line and ast.unparse(node.func).rpartition(".")[2] == name:
                return function, _find_module(function), node
    return function, _find_module(function), None


def _resolve(expression: ast.expr, frame: FrameType) -> tuple[Any, str | None]:
    """Find the function that an expression such as ``scipy.special.gamma`` names.

    Only variables and attributes of modules are read, which runs no code of the user.

    Returns:
        the function and the name of its module; None and None if it is not found.
    """
    if isinstance(expression, ast.Name):
        value = frame.f_locals.get(expression.id, frame.f_globals.get(expression.id))
        return value, _find_module(value)
    if isinstance(expression, ast.Attribute):
        owner, _ = _resolve(expression.value, frame)
        if isinstance(owner, ModuleType):
            return getattr(owner, expression.attr, None), owner.__name__
    return None, None


def _find_module(function: Any) -> str | None:
    """Return the name of the module of NumPy or SciPy that exports a function, or None."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or isinstance(function, ModuleType):
        return None
    for module_name, module in sorted(sys.modules.items()):
        is_public = not any(part.startswith("_") for part in module_name.split("."))
        exports = getattr(module, "__dict__", {}) if is_public else {}
        if module_name.partition(".")[0] in _TWINS and exports.get(name) is function:
            return module_name
    return None


def _get_parameters(frame: FrameType) -> dict[str, Any]:
    """Return a running function's named arguments, without ``self`` and ``cls``.

    Arguments in ``*args`` and ``**kwargs`` are left out.

    Args:
        frame: the frame of the function.
    """
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = frame.f_locals
    return {name: values[name] for name in names if name in values and name not in ("self", "cls")}


def _find_traced_parameters(frame: FrameType) -> tuple[str, ...]:
    """Return the names of a function's parameters that are traced."""
    return tuple(name for name, value in _get_parameters(frame).items() if _has_tracer(value))


def _has_tracer(value: object) -> bool:
    """Return whether a value is a tracer, or a list or tuple that contains a tracer."""
    if isinstance(value, list | tuple):
        return any(map(_has_tracer, value))
    return isinstance(value, jax.core.Tracer)


def _find_twin(call: ast.Call, function: Any, module: str | None) -> str | None:
    """Rewrite a call of a NumPy or SciPy function to JAX's function of the same name.

    ``scipy.special.gamma(x)`` becomes ``"jax.scipy.special.gamma(x)"``.

    Args:
        call: the user's call.
        function: the called function.
        module: name of its module.

    Returns:
        the new call as text; None if JAX has no function with this name.
    """
    package, _, rest = (module or "").partition(".")
    name = getattr(function, "__name__", None)
    if package not in _TWINS or not isinstance(name, str):
        return None
    path, shown = _TWINS[package]
    suffix = f".{rest}" if rest else ""
    with contextlib.suppress(ImportError):
        if hasattr(importlib.import_module(f"{path}{suffix}"), name):
            expression = ast.parse(f"{shown}{suffix}.{name}", mode="eval").body
            return ast.unparse(ast.Call(expression, call.args, call.keywords))
    return None
