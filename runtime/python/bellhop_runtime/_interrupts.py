"""What Ctrl-C ends where XLA runs a program on threads of its own."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from bellhop_runtime._runtime import CompiledCall, under_way

# Threads that run a part of a program for another one are called so.
HELPERS = "bellhop_region"

_uninterrupted: list[int] = []


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for what this thread runs inside."""
    thread = threading.get_ident()
    _uninterrupted.append(thread)
    try:
        yield
    finally:
        _uninterrupted.remove(thread)


def end_what_runs() -> bool:
    """Tell whether what XLA's threads run is the main thread's, and Python's handler ends it.

    Only that thread can call a handler, and it waits.  One that returns would find its program
    lost, so handlers other than Python's own wait for its end.
    """
    main = threading.main_thread()
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or main.ident in _uninterrupted
    ):
        return False
    in_program = {
        thread for thread, frame in sys._current_frames().items() if _is_in_program(frame)
    } | {thread for thread, steps in under_way() if _is_call(steps)}
    # XLA's threads are none of Python's, and what runs on them another one waits for.
    others = {
        thread.ident
        for thread in threading.enumerate()
        if thread is not main and not thread.name.startswith(HELPERS)
    }
    return main.ident in in_program and in_program.isdisjoint(others)


def _is_call(steps: list[tuple[object, float]]) -> bool:
    """Tell whether there is a call of a compiled function, of which Python has no frame."""
    return any(isinstance(what, CompiledCall) for what, _ in steps)


def _is_in_program(frame: FrameType) -> bool:
    """Tell whether a thread is in JAX or bellhop, of which XLA has no frame."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("jax", "bellhop")
