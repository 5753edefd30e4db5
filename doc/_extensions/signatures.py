"""Show signatures without annotations, and the annotations as types of the arguments.

An annotation such as ``Callable[P, R]`` helps a type checker more than a reader. Signatures show
names and defaults only, are valid Python, and are not repeated for each overload. Types, except
``Any``, are part of the arguments' descriptions.
"""

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

# Classes whose objects Bellhop creates: users do not call them.
WITHOUT_CONSTRUCTOR = {
    "bellhop.QJIT",
    "bellhop.PureCallback",
    "bellhop.NativeCallback",
    "bellhop.TorchFunction",
    "bellhop.Drawing",
    "bellhop.Profile",
    "bellhop.ProfileRow",
    "bellhop.host_callback.CallbackFlavor",
}


def setup(app: Any) -> dict[str, Any]:
    """Connect to autodoc, after napoleon has turned Args into fields."""
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("autodoc-process-docstring", _process_docstring, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def format_signature(value: Callable[..., Any]) -> str:
    """Return the parameters and defaults of a function as written between its parentheses.

    A parameter without a default may follow one with a default in Bellhop's decorators, which
    callers use with one or the other. The signature then shows the call with all of them.
    """
    parameters = list(inspect.signature(value).parameters.values())
    required = [
        index
        for index, parameter in enumerate(parameters)
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    shown = []
    keyword_only = False
    for index, parameter in enumerate(parameters):
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
                shown.append("*")
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        needs_default = parameter.default is not parameter.empty and not (
            required and index < required[-1]
        )
        default = f"={_format_default(parameter.default)}" if needs_default else ""
        shown.append(f"{prefix}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def _format_default(value: Any) -> str:
    """Return a default value as Python code."""
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def format_type(annotation: Any) -> str | None:
    """Return a type in a reader's words, and None for ``Any``."""
    if annotation in (Any, inspect.Parameter.empty):
        return None
    if annotation is None or annotation is types.NoneType:
        return "None"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [format_type(member) for member in args]
        return None if None in members else " | ".join(dict.fromkeys(map(str, members)))
    if origin is typing.Annotated:
        return format_type(args[0])
    if origin is typing.Literal:
        return " | ".join(map(repr, args))
    if isinstance(annotation, str | typing.TypeVar | typing.ParamSpec):
        return None
    name = getattr(origin or annotation, "__name__", str(origin or annotation))
    if name == "Callable":
        return "function"
    members = [format_type(member) for member in args if member is not ...]
    return f"{name}[{', '.join(map(str, members))}]" if members and None not in members else name


def _process_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str, returns: str
) -> tuple[str, None] | None:
    """Return the signature that Sphinx shows for an object; None for its own."""
    if name in WITHOUT_CONSTRUCTOR or (inspect.isclass(value) and issubclass(value, Exception)):
        return None if signature is None else ("", None)
    if what not in ("function", "method", "class"):
        return None
    try:
        return format_signature(value), None
    except (TypeError, ValueError):
        return None


def _process_docstring(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Insert the annotated types of parameters and attributes into a docstring's fields."""
    try:
        hints = typing.get_type_hints(value)
    except (TypeError, ValueError, NameError):
        return
    for index in range(len(lines) - 1, -1, -1):
        match = re.match(r":(param|ivar) (\w+):", lines[index])
        text = match and format_type(hints.get(match[2], inspect.Parameter.empty))
        if match and text:
            field = "type" if match[1] == "param" else "vartype"
            lines.insert(index, f":{field} {match[2]}: {text}")
