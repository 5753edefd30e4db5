"""Preallocation of memory for Python frames, which speeds up tracing.

CPython up to 3.13 allocates frames in chunks of 16 KiB, and frees a chunk as soon as its last frame
ends (on 3.14.8, no memory was mapped call by call: the module goes with support for 3.13). If a
chunk ends just above a function that makes many calls, such as JAX's tracing, each call maps and
unmaps memory: tracing takes twice as long at some stack depths as at others.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Stack size in words. A frame of this size gets a chunk of the next power of two, and leaves half
# of it free.
_SIZE = 2**15


def preallocate_frames(function: _Function) -> _Function:
    """Give a function a large frame, so that calls below it need no new memory.

    CPython allocates a chunk of memory for this frame that also holds about a thousand nested
    frames. So tracing below the function is equally fast at all stack depths. Memory of the chunk
    that is never touched is not used.

    Args:
        function: Python function, whose ``__code__`` is replaced in place.

    Returns:
        `function` itself.
    """
    function.__code__ = function.__code__.replace(co_stacksize=_SIZE)  # type: ignore[attr-defined]
    return function
