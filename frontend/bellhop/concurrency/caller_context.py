"""Caller's context variables, for callbacks that run on threads of XLA.

NumPy keeps its print options in a context variable. Threads that XLA starts have an empty context,
so callbacks on these threads would print with NumPy's defaults.
"""

import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_latest_context = contextvars.Context()


def save_context() -> None:
    """Save a copy of this thread's context variables, for `call_in_caller_context`.

    Call it before this thread runs a program, whose callbacks may run on other threads. There is
    one copy in the process: a later call, from any thread, replaces it.
    """
    global _latest_context
    _latest_context = contextvars.copy_context()


def call_in_caller_context(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` with the context variables of the program's latest caller.

    On a thread that Python did not start, such as XLA's threads, the variables are a copy of the
    variables that `save_context` saved. On a thread that Python started, they are the thread's
    own: it is the caller's thread.

    Returns:
        the result of `function`.
    """
    if _is_python_thread():
        return function(*args, **kwargs)
    # Threads may print concurrently, and a context cannot be entered twice at a time.
    return _latest_context.copy().run(function, *args, **kwargs)


def _is_python_thread() -> bool:
    """Return whether Python started the current thread, not XLA or the runtime."""
    here = threading.get_ident()
    return any(
        thread.ident == here and not isinstance(thread, threading._DummyThread)
        for thread in threading.enumerate()
    )
