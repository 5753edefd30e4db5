"""Checks of options of public functions, before their values are used."""

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from bellhop.errors import format_value, unknown_option_error

F = TypeVar("F", bound=Callable[..., Any])


def check_option_names(function: F) -> F:
    """Make a public function suggest the known option for a misspelled keyword.

    Python's own error for an unknown keyword lists no names.

    Args:
        function: function with named parameters only, which are its options.

    Returns:
        a wrapper, which raises a `TypeError` for an unknown keyword.
    """
    parameters = inspect.signature(function).parameters
    names = [name for name, each in parameters.items() if each.kind is not each.POSITIONAL_ONLY]
    known = frozenset(names)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise unknown_option_error(function.__name__, name, names)
        return function(*args, **kwargs)

    return cast(F, checked)


def check_option(where: str, name: str, value: object, types: Any, expected: str) -> None:
    """Raise a `TypeError` unless the value of an option has one of the allowed types.

    Args:
        where: name of the public function, for the error.
        name: name of the option, for the error.
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
        example: an allowed value, as Python code.
    """
    check_option(where, name, value, Mapping, f"a dictionary, such as {example}")


def check_number(where: str, name: str, value: object) -> None:
    """Raise a `TypeError` if the value of an option is not a real number.

    Args:
        where: name of the public function, for the error.
        name: name of the option, for the error.
    """
    check_option(where, name, value, numbers.Real | np.number, "a number")
