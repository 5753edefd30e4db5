"""Validation of JSON data against Python type annotations.

Data of a file is used only after validation here, and validated data is plain data: no name in it
is looked up.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal


class Malformed(ValueError):
    """The content of a file does not have the expected form."""


def read(form: Any, value: Any, where: str) -> Any:
    """Validate a JSON value against a type, and convert it to the type.

    For example ``read(tuple[int, ...], [1, 2], "shape")`` gives ``(1, 2)``.

    Args:
        form: the expected type: ``bool``, ``int``, ``float``, ``str``, None, ``Any``, a literal, a
            tuple, a dataclass, a dictionary with the form of each value, a list with the form of
            all elements, or a union of these; dataclasses in a union need a literal field ``kind``.
        value: nested lists, dictionaries, numbers, strings and None, as `json.loads` returns them.
        where: name of the value in the file, for errors.

    Returns:
        the value as `form`. Where `form` is ``Any``, lists become tuples.

    Raises:
        Malformed: if the value does not have the expected type; names the path.
    """
    try:
        return _convert(form, value)
    except _Mismatch as mismatch:
        path = where + "".join(reversed(mismatch.steps))
    raise Malformed(f"the file's {path} has an unexpected type or value")


class _Mismatch(Exception):
    """Exception for a JSON value that does not have the expected type.

    The path of the value is built while the exception is raised: storing a path for each value
    would take more memory than the values.

    Attributes:
        steps: the steps from the whole JSON value to the faulty value, innermost first, such as
            ``"[3]"``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []


def _convert(form: Any, value: Any) -> Any:
    """Convert a JSON value to a type, as `read` does; raise `_Mismatch` on failure."""
    if form is Any:
        return _freeze(value)
    if isinstance(form, list):
        _require(type(value) is list)
        return _convert_each(form * len(value), value)
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        form = next((each for each in arguments if _matches_form(each, value)), None)
        _require(form is not None)
        return _convert(form, value)
    if origin is tuple:
        _require(type(value) is list)
        if arguments[1:] == (...,):
            arguments = arguments[:1] * len(value)
        _require(len(value) == len(arguments))
        return tuple(_convert_each(arguments, value))
    if dataclasses.is_dataclass(form):
        return form(**_convert(_get_fields(form), value))  # type: ignore[operator, arg-type]
    if isinstance(form, Mapping):
        _require(type(value) is dict and value.keys() == form.keys())
        each = _convert_each(form.values(), [value[name] for name in form], list(form))
        return dict(zip(form, each, strict=True))
    _require(_matches_form(form, value))
    return value


def _convert_each(
    forms: Iterable[Any], values: Sequence[Any], names: Sequence[str] | None = None
) -> list[Any]:
    """Convert each element of a list, or each value of a dictionary, to its own type.

    Args:
        forms: the expected types.
        values: JSON values, one for each type.
        names: keys of the values in the dictionary; None for a list.

    Raises:
        _Mismatch: for the first value without its expected type.
    """
    converted: list[Any] = []
    try:
        for form, value in zip(forms, values, strict=True):
            converted.append(_convert(form, value))
    except _Mismatch as mismatch:
        number = len(converted)
        mismatch.steps.append(f"[{number}]" if names is None else f".{names[number]}")
        raise
    return converted


def _matches_form(form: Any, value: object) -> bool:
    """Return whether the outermost type of a JSON value is the expected type.

    It selects the alternative of a union; the parts of the value are not looked at, except the
    field ``kind`` of a dataclass.

    Args:
        form: the expected type, as in `read`, but not a union, a list or a dictionary.
        value: a JSON value.
    """
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in arguments)
    if origin is tuple:
        return type(value) is list
    if dataclasses.is_dataclass(form):
        kind = value.get("kind") if type(value) is dict else None
        return _matches_form(_get_fields(form)["kind"], kind)  # type: ignore[arg-type]
    if form is str:
        # JSON strings may have surrogates, which are not valid Unicode.
        return type(value) is str and not any("\ud800" <= c <= "\udfff" for c in value)
    return type(value) is form


def _freeze(value: object) -> Any:
    """Convert all lists in a JSON value to tuples, nested lists included."""
    if type(value) is list:
        return tuple(map(_freeze, value))
    if type(value) is dict:
        return {name: _freeze(each) for name, each in value.items()}
    return value


def _require(is_fitting: bool) -> None:
    """Raise `_Mismatch` if a condition on a JSON value is false."""
    if not is_fitting:
        raise _Mismatch()


@functools.cache
def _get_fields(form: Hashable) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    return typing.get_type_hints(form)  # type: ignore[arg-type]
