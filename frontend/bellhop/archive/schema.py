"""Validation of JSON data against Python type annotations.

Data of a file is used only after validation here, and validated data is plain data: no name in it
is looked up.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
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
        where: path of the value in the file, for errors.

    Returns:
        the value as `form`. Where `form` is ``Any``, lists become tuples.

    Raises:
        Malformed: if the value does not have the expected type; names the path.
    """
    if form is Any:
        return _freeze(value)
    if isinstance(form, list):
        value = _or_fail(value, type(value) is list, where)
        return [read(form[0], each, f"{where}[{number}]") for number, each in enumerate(value)]
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        form = next((each for each in arguments if _matches_form(each, value)), None)
        return read(_or_fail(form, form is not None, where), value, where)
    if origin is tuple:
        value = _or_fail(value, type(value) is list, where)
        if arguments[1:] == (...,):
            arguments = arguments[:1] * len(value)
        value = _or_fail(value, len(value) == len(arguments), where)
        places = [f"{where}[{number}]" for number in range(len(value))]
        return tuple(map(read, arguments, value, places))
    if dataclasses.is_dataclass(form):
        return form(**read(typing.get_type_hints(form), value, where))  # type: ignore[operator]
    if isinstance(form, Mapping):
        is_record = type(value) is dict and value.keys() == form.keys()
        value = _or_fail(value, is_record, where)
        return {name: read(each, value[name], f"{where}.{name}") for name, each in form.items()}
    return _or_fail(value, _matches_form(form, value), where)


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
        return _matches_form(typing.get_type_hints(form)["kind"], kind)
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


def _or_fail(value: object, is_fitting: bool, where: str) -> Any:
    if not is_fitting:
        raise Malformed(f"the file's {where} has an unexpected type or value")
    return value
