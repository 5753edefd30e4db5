"""The context of who called a program, for what it prints on whatever thread that happens.

NumPy keeps its print options in the context of a thread, and a thread of XLA's has none.
"""

import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_latest_context = contextvars.Context()


def save_context() -> None:
    """Keep the context here for what the program that is called now prints."""
    global _latest_context
    _latest_context = contextvars.copy_context()


def call_in_caller_context(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in the context of the caller of the program, the latest one.

    A thread of Python's keeps its own context: there the caller runs the program itself.  A thread
    of XLA's or of taps has a context too, once something in it has set a variable.
    """
    if _is_thread_of_python():
        return function(*args, **kwargs)
    # A context is entered once at a time, and threads print at the same time.
    return _latest_context.copy().run(function, *args, **kwargs)


def _is_thread_of_python() -> bool:
    """Tell whether Python started this thread; ``threading`` makes up objects for others."""
    here = threading.get_ident()
    return any(
        thread.ident == here and not isinstance(thread, threading._DummyThread)
        for thread in threading.enumerate()
    )
