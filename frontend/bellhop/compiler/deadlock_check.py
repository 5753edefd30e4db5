"""Devices that wait for a callback, and what it may not run meanwhile: regions on them.

Such a region would wait for ever.  The callback may start threads, or hand work to others: these
know what waits for it, too.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from multiprocessing.pool import ThreadPool
from typing import Any

from bellhop._patching import patch
from bellhop_runtime._interrupts import HELPERS


class _WaitingDevice:
    """A device that waits for a callback, until that is over."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.is_over = False


# Those for what this thread runs.
_waits: ContextVar[tuple[_WaitingDevice, ...]] = ContextVar("waits", default=())


def _propagate_waits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is called on another thread know what waits here: the callback may wait for it.

    And no more than that: a thread may have been started by a callback that is no concern of it.
    """
    waits = _waits.get()

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        former = _waits.set(waits)
        try:
            return function(*args, **kwargs)
        finally:
            _waits.reset(former)

    return called


_POOLS = [
    "apply",
    "apply_async",
    "map",
    "map_async",
    "starmap",
    "starmap_async",
    "imap",
    "imap_unordered",
]


@patch("starting threads, and handing work to pools", "devices wait for threads of callbacks too")
def propagate_waits_to_threads() -> None:
    """Let other threads know what waits for the callback that starts them, or hands them work.

    Nothing of a context gets to the threads of a pool, nor, before Python 3.14, to a thread that
    is started in it.
    """
    begin = threading.Thread.start

    @functools.wraps(begin)
    def start(thread: threading.Thread) -> None:
        # Ours do what others ask for, in the context of these.
        if _waits.get() and not thread.name.startswith(HELPERS):
            run = _propagate_waits(thread.run)

            def run_here() -> None:
                del thread.run
                run()

            thread.run = run_here  # type: ignore[method-assign]
        begin(thread)

    threading.Thread.start = start  # type: ignore[assignment, method-assign]
    for pool, names in ((ThreadPoolExecutor, ["submit"]), (ThreadPool, _POOLS)):
        for name in names:
            setattr(pool, name, _wrap_pool_method(getattr(pool, name)))


def _wrap_pool_method(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def submit(pool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (_propagate_waits(args[0]), *args[1:])
        elif "func" in kwargs:
            kwargs["func"] = _propagate_waits(kwargs["func"])
        return method(pool, *args, **kwargs)

    return submit


@contextlib.contextmanager
def mark_waiting(device: str | None) -> Iterator[None]:
    """Have a device, if one is known, wait for what is called inside."""
    if device is None:
        yield
        return
    wait = _WaitingDevice(device)
    former = _waits.set((*_waits.get(), wait))
    try:
        yield
    finally:
        wait.is_over = True
        _waits.reset(former)


def check_device_not_waiting(device: str, name: str) -> None:
    """Refuse to run a region from a callback for which its device waits, or from its threads.

    Raises:
        RuntimeError: such a device may run one program at a time, and would wait for ever.
    """
    if any(wait.device == device and not wait.is_over for wait in _waits.get()):
        raise RuntimeError(
            f"region '{name}' runs on {device}, which waits for the callback that calls it. Call "
            "its function in the accelerated function itself, or accelerate it on another device."
        )
