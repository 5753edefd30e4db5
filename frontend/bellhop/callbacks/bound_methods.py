"""Binding of callbacks that are class attributes: they behave as methods."""

import functools
from collections.abc import Callable
from typing import Any

from bellhop._jax.private import hide_frames
from bellhop.base.pickling import PickledByName
from bellhop.base.source import function_name
from bellhop.base.uncalled_function import UncalledFunction
from bellhop.callbacks.call_signature import describe_uncalled_callback


def bind_method(function: Callable[..., Any], instance: object, owner: type | None) -> Any:
    """Bind a callable that is a class attribute to an instance, as Python does.

    Args:
        function: the class attribute; may be None or a callable object.

    Returns:
        ``function.__get__(instance, owner)``; the function itself if its type has no ``__get__``.
    """
    bind = getattr(type(function), "__get__", None)
    return function if bind is None else bind(function, instance, owner)


class Caller(UncalledFunction, PickledByName):
    """The callable that ``io_callback`` returns: it calls the user's function as a callback.

    As a class attribute it is a method: access through an instance gives a `Caller` of the bound
    method.

    Args:
        function: the user's function.
        make_caller: takes a function; returns a function of the same arguments that calls it as a
            callback.
        what: description of the callback in ``repr``, such as ``"io_callback 'f'"``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        make_caller: Callable[[Any], Callable[..., Any]],
        what: str,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function_name(function)
        self._function = function
        self._make_caller = make_caller
        self._what = what
        self._call = make_caller(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as a callback."""
        try:
            return self._call(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    def __repr__(self) -> str:
        return f"<{self._what}: call it with the arguments>"

    def _describe_missing_call(self) -> str:
        """Return the error text for a `Caller` that is used as an array, not called."""
        return describe_uncalled_callback(self._what)

    def __get__(self, instance: object, owner: type | None = None) -> "Caller":
        """Return a `Caller` of the method that is bound to an instance."""
        if instance is None:
            return self
        return Caller(bind_method(self._function, instance, owner), self._make_caller, self._what)
