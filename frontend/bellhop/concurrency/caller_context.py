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
    """Save this thread's context variables for callbacks that run on other threads.

    Called before this thread runs a program; the program's callbacks use the variables. A later
    call replaces them.
    """
    global _latest_context
    _latest_context = contextvars.copy_context()


def call_in_caller_context(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` with the context variables of the program's latest caller.

    On threads that Python started, `function` runs in the thread's own context: the caller runs the
    program on such a thread itself. All other threads (of XLA or of taps) use a copy of the context
    from `save_context`.
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
