"""PennyLane's stack of active queues, one for each thread.

PennyLane has one stack for all threads.  A lock lets one thread record at a time, but
``stop_recording()``, which operators and decompositions use everywhere, exchanges the stack without
the lock.  So if two threads traced at once, gates got lost, and a thread whose queue was gone kept
the lock for ever.

Replaced: ``QueuingManager._active_contexts``, ``stop_recording`` and ``AnnotatedQueue._lock``.
Versions: 0.45.
Upstream: a stack in a context variable.
Installed: when a program that may call QNodes is first traced.
Test: ``test_threads_that_trace.py``.
"""

import threading
from collections import UserList
from collections.abc import Iterator
from typing import Any

from pennylane.queuing import AnnotatedQueue, QueuingManager

from bellhop._patching import patch


class _Contexts(threading.local, UserList[AnnotatedQueue]):
    """The queues that record in this thread, innermost last."""


class _NoLock:
    """In place of PennyLane's: a thread may wait for another that records too."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _stop_recording(cls: Any) -> Iterator[None]:
    contexts = cls._active_contexts
    stopped = list(contexts)
    contexts.clear()
    try:
        yield
    finally:
        contexts.clear()
        contexts.extend(stopped)


def separate_threads() -> None:
    """Let every thread record for itself, in uncompiled circuits too.

    A ``stop_recording()`` of PennyLane's own that was open meanwhile puts its list back when it
    ends, so this is asked before each trace.
    """
    with AnnotatedQueue._lock:
        recording = QueuingManager._active_contexts
        if isinstance(recording, _Contexts):
            return
        contexts = _Contexts()
        contexts.data = recording
        QueuingManager._active_contexts = contexts
        _lock_nothing()


@patch("PennyLane's queues", "threads record circuits at once")
def _lock_nothing() -> None:
    # What was decorated with stop_recording() holds the function itself.
    QueuingManager.stop_recording.__func__.__wrapped__.__code__ = _stop_recording.__code__
    AnnotatedQueue._lock = _NoLock()
