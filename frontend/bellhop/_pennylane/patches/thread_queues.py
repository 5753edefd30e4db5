"""Give each thread its own stack of active queues in PennyLane.

PennyLane has one stack for all threads.  A lock lets one thread record at a time, but
``stop_recording()``, which operators and decompositions use everywhere, replaces the stack without
the lock.  So if two threads trace concurrently, gates are lost, and a thread whose queue is missing
never releases the lock.

Replaced: ``QueuingManager._active_contexts``, ``stop_recording`` and ``AnnotatedQueue._lock``.
Versions: 0.45.
Upstream: a stack in a context variable.
Issue: pennylane#910, pennylane#3927.
Installed: when a program that may call QNodes is first traced.
Test: ``test_threads_that_trace.py``.
"""

import threading
from collections import UserList
from collections.abc import Iterator
from typing import Any

from pennylane.queuing import AnnotatedQueue, QueuingManager

from bellhop._patching import patch, replace


class _Contexts(threading.local, UserList[AnnotatedQueue]):
    """PennyLane's stack of active queues, one for each thread, innermost queue last."""


class _NoLock:
    """Lock that never blocks, since each thread has its own stack of queues.

    It replaces the lock in the class ``AnnotatedQueue``.
    """

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _stop_recording(cls: Any) -> Iterator[None]:
    """Stop recording operations on this thread, inside of a ``with`` block.

    The queues are removed from the thread's stack and put back at the end. The code object of this
    function replaces the code of ``QueuingManager.stop_recording``.
    """
    contexts = cls._active_contexts
    stopped = list(contexts)
    contexts.clear()
    try:
        yield
    finally:
        contexts.clear()
        contexts.extend(stopped)


def use_thread_queues() -> None:
    """Give each thread its own stack of queues, also in uncompiled circuits.

    Call this before each trace, not only once: a ``stop_recording()`` of PennyLane that was active
    when the patch was installed restores the shared stack when it ends.
    """
    with AnnotatedQueue._lock:
        recording = QueuingManager._active_contexts
        if isinstance(recording, _Contexts):
            return
        contexts = _Contexts()
        contexts.data = recording
        QueuingManager._active_contexts = contexts
        _patch_recording()


@patch("PennyLane's queues", "threads record circuits at once")
def _patch_recording() -> None:
    """Replace PennyLane's function ``stop_recording``, and the lock of its queues."""
    # Functions decorated with stop_recording() reference the function object, so its code is
    # replaced.
    stop = QueuingManager.stop_recording.__func__.__wrapped__
    replace(stop, "__code__", _stop_recording.__code__)
    replace(AnnotatedQueue, "_lock", _NoLock())
