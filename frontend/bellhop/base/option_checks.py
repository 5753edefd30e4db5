"""Checks of options of public functions, before their values are used."""

import numbers
from collections.abc import Mapping
from typing import Any

from bellhop.errors import format_value


def check_option(where: str, name: str, value: object, types: Any, expected: str) -> None:
    """Raise a `TypeError` unless the value of an option has one of the allowed types.

    Args:
        where: name of the public function, for the error.
        name: name of the option, for the error.
        value: value of the option.
        types: allowed types, as for ``isinstance``.
        expected: the allowed values in words.
    """
    if not isinstance(value, types):
        raise TypeError(f"{where}: {name} is {format_value(value)}, expected {expected}.")


def check_mapping(where: str, name: str, value: object, example: str) -> None:
    """Raise a `TypeError` if the value of an option is not a mapping.

    Args:
        where: name of the public function, for the error.
        name: name of the option, for the error.
        value: value of the option.
        example: an allowed value, as Python code.
    """
    check_option(where, name, value, Mapping, f"a dictionary, such as {example}")


def check_number(where: str, name: str, value: object) -> None:
    """Raise a `TypeError` unless the value of an option is a number.

    Accepted are the real numbers of Python, also booleans, and of NumPy.

    Args:
        where: name of the public function, for the error.
        name: name of the option, for the error.
        value: value of the option.
    """
    check_option(where, name, value, numbers.Real, "a number")
