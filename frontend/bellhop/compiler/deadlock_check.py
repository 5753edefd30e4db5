"""Detection of deadlocks between a callback and the device that waits for it.

A region on a device that waits for the calling callback would never start. The callback may start
the region from other threads, so the set of waiting devices is passed on to new threads and pool
tasks.
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
    """A device that waits for a callback, during one ``with mark_waiting(device)``.

    Threads that start in the block share it, and may live longer. ``is_over`` is True after the end
    of the block.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.is_over = False


# Devices that wait for the code that this thread runs.
_waits: ContextVar[tuple[_WaitingDevice, ...]] = ContextVar("waits", default=())
# Returns the devices that may wait for the code that this thread runs.
get_waiting_devices = _waits.get


def _propagate_waits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to run with this thread's waiting devices on any thread.

    A waiting device is a device that waits for a callback; `mark_waiting` marks it.

    Args:
        function: function that another thread will call.

    Returns:
        a function with the same arguments and result.
    """
    # Not the whole context: unrelated code may have created the thread.
    waits = _waits.get()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call ``function`` with the waiting devices of the thread that wrapped it."""
        former = _waits.set(waits)
        try:
            return function(*args, **kwargs)
        finally:
            _waits.reset(former)

    return call


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


@patch("starting threads and submitting pool tasks", "devices wait for threads of callbacks too")
def propagate_waits_to_threads() -> None:
    """Patch threads and thread pools so that new tasks inherit the waiting devices.

    A device waits while it runs a program that has called a callback. If the callback, or a thread
    that it starts, runs a region on that device, neither would ever end: `check_device_not_waiting`
    raises an error, for which it must know the waiting devices in every thread.

    Patches ``threading.Thread``, ``ThreadPoolExecutor`` and ``multiprocessing``'s ``ThreadPool``:
    pool threads do not inherit context variables, nor do new threads before Python 3.14.
    """
    start_by_python = threading.Thread.start

    @functools.wraps(start_by_python)
    def start(thread: threading.Thread) -> None:
        """Start a thread, which inherits the waiting devices of the thread that starts it.

        Replaces ``threading.Thread.start``.
        """
        # Bellhop's helper threads run tasks in the submitter's context.
        if _waits.get() and not thread.name.startswith(HELPERS):
            run = _propagate_waits(thread.run)

            def run_here() -> None:
                """Call the wrapped ``run``, after removing this function from the thread."""
                del thread.run
                run()

            thread.run = run_here  # type: ignore[method-assign]
        start_by_python(thread)

    threading.Thread.start = start  # type: ignore[assignment, method-assign]
    for pool, names in ((ThreadPoolExecutor, ["submit"]), (ThreadPool, _POOLS)):
        for name in names:
            setattr(pool, name, _wrap_pool_method(getattr(pool, name)))


def _wrap_pool_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a pool's method so that tasks inherit the caller's waiting devices.

    Args:
        method: method of a thread pool, such as ``submit`` or ``map``. Its first argument, or its
            keyword ``func``, is the function that a pool thread will call.
    """

    @functools.wraps(method)
    def submit(pool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a task to the pool; it runs with the waiting devices of this thread."""
        if args:
            args = (_propagate_waits(args[0]), *args[1:])
        elif "func" in kwargs:
            kwargs["func"] = _propagate_waits(kwargs["func"])
        return method(pool, *args, **kwargs)

    return submit


@contextlib.contextmanager
def mark_waiting(device: str | None) -> Iterator[None]:
    """Mark a device as waiting for the code inside of a ``with`` block.

    Then `check_device_not_waiting` rejects regions on that device, which would never start.

    Args:
        device: name of the device that waits for a callback; None, if unknown, marks nothing.
    """
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
    """Raise an error if a device cannot run a region since it waits for this callback.

    A region is a function that `accelerate` runs on a device. A device runs one program at a time,
    so the region would never start.

    Args:
        device: name of the region's device.
        name: name of the region, for the error.

    Raises:
        RuntimeError: if ``device`` waits for a callback that calls this function, also from a
            thread that the callback started.
    """
    if any(wait.device == device and not wait.is_over for wait in _waits.get()):
        raise RuntimeError(
            f"region '{name}' runs on {device}, which waits for the callback that calls the "
            f"region. Call '{name}' in the accelerated function itself, not in a callback, or run "
            "it on another device."
        )
