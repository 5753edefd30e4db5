"""Attributes of users' exceptions whose classes reject assignments, such as frozen dataclasses."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Attributes that Python, JAX and Bellhop set while an exception propagates.
_SET_BY_LIBRARIES = {
    "__cause__",
    "__context__",
    "__notes__",
    "__suppress_context__",
    "__traceback__",
}


def set_exception_attribute(error: BaseException, name: str, value: Any) -> None:
    """Set an attribute of an exception, also if its class overrides ``__setattr__``."""
    BaseException.__setattr__(error, name, value)


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, also if its class overrides ``__setattr__``."""
    set_exception_attribute(error, "__notes__", [*getattr(error, "__notes__", ()), note])


def find_hidden_exception(error: BaseException) -> BaseException:
    """Return the exception that an error replaced, or the error itself.

    ``contextlib`` and JAX assign to ``__traceback__`` of exceptions that pass through them. If the
    exception's class rejects assignments, its ``__setattr__`` raises an error in the exception's
    place, and the exception is the context of that error.

    Args:
        error: exception from a traced function.
    """
    hidden = error.__context__
    while hidden is not None and _was_raised_by_setattr(error, hidden):
        error, hidden = hidden, hidden.__context__
    return error


def reveal_exception(error: BaseException) -> BaseException:
    """Return the exception that an error has replaced, with the error's notes added.

    `find_hidden_exception` finds the replaced, or hidden, exception.

    Args:
        error: exception from a traced function.

    Returns:
        the hidden exception; `error` itself if it hides none.
    """
    found = find_hidden_exception(error)
    if found is not error:
        for note in getattr(error, "__notes__", ()):
            add_note(found, note)
    return found


def reveal_exceptions(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to raise the user's exception if an error has replaced it.

    `find_hidden_exception` describes such errors.

    Args:
        function: a function that traces a user's function.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; raise a hidden exception in the place of the error."""
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            found = reveal_exception(error)
            if found is error:
                raise
        # Raise outside of the handler, so that the handled error is not the context.
        raise found

    return call


def _was_raised_by_setattr(error: BaseException, hidden: BaseException) -> bool:
    """Return whether `error` is from the ``__setattr__`` of another exception's class.

    That is, a library assigned an attribute such as ``__traceback__`` to the exception `hidden`,
    and the class of `hidden` rejected the assignment by raising `error`.
    """
    code = getattr(type(hidden).__setattr__, "__code__", None)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not code:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    frame = traceback.tb_frame
    first, attribute = (frame.f_locals.get(name) for name in frame.f_code.co_varnames[:2])
    return first is hidden and attribute in _SET_BY_LIBRARIES
