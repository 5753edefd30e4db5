"""Memory for the frames of the Python functions that a function calls.

CPython takes it in pieces of 16 KiB, and gives each back to the system as soon as its last frame
ends.  Where a piece happens to end just above a function that makes many calls, as JAX's tracing
does, each of them maps memory and unmaps it again: tracing takes twice as long at some depths of
the stack as at others.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
# In words.  A frame of this size gets a piece of the next power of two, half of which is left.
_SIZE = 2**15


def preallocate_frames(function: _Function) -> _Function:
    """Decorate a function: a piece of memory has room for a thousand frames under it.

    Pages of it that are never reached take no memory.

    Args:
        function: a function of Python's, which is changed.
    """
    function.__code__ = function.__code__.replace(co_stacksize=_SIZE)  # type: ignore[attr-defined]
    return function
