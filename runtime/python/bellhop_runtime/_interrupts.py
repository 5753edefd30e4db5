"""Decide whether Ctrl-C ends a program that XLA runs on its own threads."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from bellhop_runtime._runtime import CompiledCall, under_way

# Prefix of the names of threads that run regions for another thread.
HELPERS = "bellhop_region"

_uninterrupted: list[int] = []


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C from ending programs that this thread runs in a ``with`` block.

    In the main thread, the handler of the signal then runs after a program has ended; in other
    threads the block changes nothing. Used for programs on several devices.
    """
    thread = threading.get_ident()
    _uninterrupted.append(thread)
    try:
        yield
    finally:
        _uninterrupted.remove(thread)


def should_end_programs() -> bool:
    """Return whether Ctrl-C must end the programs that XLA's threads run.

    A query of the C++ runtime while a signal is pending; it ends nothing itself. True if only the
    main thread runs a program, not in a block of `uninterrupted`, and Python's default handler is
    installed. Only the main thread can call a handler, and it waits for the program. A handler that
    returns expects the program to continue, so handlers other than Python's own run after the
    program has ended.
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
    # XLA's threads are not listed here: another thread waits for each program on them.
    others = {
        thread.ident
        for thread in threading.enumerate()
        if thread is not main and not thread.name.startswith(HELPERS)
    }
    return main.ident in in_program and in_program.isdisjoint(others)


def _is_call(steps: list[tuple[object, float]]) -> bool:
    """Return whether a thread calls a compiled function, which has no Python frame.

    ``steps`` has the thread's current steps in the runtime, from `under_way`: objects with start
    times.
    """
    return any(isinstance(what, CompiledCall) for what, _ in steps)


def _is_in_program(frame: FrameType) -> bool:
    """Return whether the innermost Python frame of a thread is in JAX or bellhop."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("jax", "bellhop")
