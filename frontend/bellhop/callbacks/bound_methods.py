"""Callbacks that stand in a class are methods, as Python's own functions are."""

import functools
from collections.abc import Callable
from typing import Any

from bellhop.base.pickling import PickledByName
from bellhop.base.source import function_name


def bind_method(function: Callable[..., Any], instance: object, owner: type | None) -> Any:
    """Return what a function that stands in a class is to an instance.

    A static method, and a callable without a method of Python's, is itself.
    """
    bind = getattr(type(function), "__get__", None)
    return function if bind is None else bind(function, instance, owner)


class Caller(PickledByName):
    """What calls a function back, made of it; in a class, of the instance's method.

    Args:
        function: the user's function.
        caller_of: makes what calls it.
        what: what users know it by.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        caller_of: Callable[[Any], Callable[..., Any]],
        what: str,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function_name(function)
        self._function = function
        self._caller_of = caller_of
        self._what = what
        self._call = caller_of(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._what}: call it with the arguments>"

    def __get__(self, instance: object, owner: type | None = None) -> "Caller":
        if instance is None:
            return self
        return Caller(bind_method(self._function, instance, owner), self._caller_of, self._what)
