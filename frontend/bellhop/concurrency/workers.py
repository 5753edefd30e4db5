"""Threads that run Python functions for a program that waits for them, in the caller's context.

    task = workers.submit(function, x)     # a thread takes it, where one of `limit` is free
    task.result()                          # this thread takes it where none has yet

So nobody ever waits for a task that waits for a thread: programs may nest, and tasks that hold the
GIL cost no switch of threads.
"""

import contextlib
import contextvars
import itertools
import os
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from bellhop_runtime._interrupts import HELPERS

# How long a thread waits for more to do, in seconds.
_IDLE = 10.0


class Task:
    """A call that some thread makes; it is dropped where nobody refers to it any more.

    Args:
        function: what is called.
        arguments: its arguments.
    """

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._call = function, arguments
        self._context = contextvars.copy_context()
        self._unclaimed = threading.Lock()
        self._running = threading.Lock()
        self._running.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def drop(self) -> bool:
        """Tell whether no thread has taken it; none will then."""
        return self._unclaimed.acquire(blocking=False)

    def run(self) -> None:
        """Make the call, unless another thread has taken it."""
        if not self.drop():
            return
        function, arguments = self._call
        try:
            self._result = self._context.run(function, *arguments)
        except BaseException as error:
            self._error = error
        finally:
            self._running.release()

    def result(self) -> Any:
        """Return what the call returned or raise what it raised; make it if nobody does."""
        if self.drop():
            function, arguments = self._call
            return function(*arguments)
        with self._running:
            error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result


class Workers:
    """At most ``limit`` threads, which begin as they are needed and end when they are not.

    Args:
        limit: how many tasks run at once, besides those that the threads that wait take.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._start_thread()
        _all.add(self)

    def _start_thread(self) -> None:
        self._queue: queue.SimpleQueue[weakref.ref[Task]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Task:
        """Let a thread call a function, in a copy of the context here."""
        task = Task(function, arguments)
        with self._lock:
            self._queue.put(weakref.ref(task))
            if self._threads < self.limit:
                # Without another thread, whoever waits for the task makes the call.
                with contextlib.suppress(RuntimeError):
                    _start(self._work)
                    self._threads += 1
        return task

    def _work(self) -> None:
        while True:
            try:
                task = self._queue.get(timeout=_IDLE)()
            except queue.Empty:
                with self._lock:
                    if self._queue.empty():
                        self._threads -= 1
                        return
                continue
            if task is not None:
                task.run()
            # It holds arguments and a result, and the next may be long in coming.
            del task

    def call_each(self, function: Callable[..., None], elements: Sequence[Sequence[Any]]) -> None:
        """Call a function for each element, in the threads and in this one, and wait.

        Raises:
            BaseException: what the first of the elements raised, in their order, of those that
                were called: none is once one has raised.  What ends Python, such as a
                KeyboardInterrupt, waits for no other call.
        """
        numbers = itertools.count()
        raised: dict[int, BaseException] = {}
        helpers: list[Task] = []

        def work() -> None:
            # One asks for the next: where calls hold the GIL, few are ever asked for.
            if len(helpers) < min(self.limit, len(elements) - 1):
                helpers.append(self.submit(work))
            while not raised and (number := next(numbers)) < len(elements):
                try:
                    function(*elements[number])
                except BaseException as error:
                    raised[number] = error
                    if not isinstance(error, Exception):
                        raise

        work()
        for helper in helpers:
            if not helper.drop():
                helper.result()
        if raised:
            raise raised[min(raised)]


class StartableFunction:
    """A function that the runtime may start, for its result later.

    Args:
        function: the function.
        workers: where it runs.
    """

    def __init__(self, function: Callable[..., Any], workers: Workers) -> None:
        self._function = function
        self._workers = workers

    def __call__(self, *arguments: Any) -> Any:
        """Call the function here."""
        return self._function(*arguments)

    def start(self, *arguments: Any) -> Callable[[], Any]:
        """Start a call; return what waits for its result."""
        return self._workers.submit(self._function, *arguments).result


def _start(function: Callable[[], None]) -> None:
    # A daemon: a call that nobody waits for any more must not hold up the end of the process.
    threading.Thread(target=function, name=HELPERS, daemon=True).start()


_all: weakref.WeakSet[Workers] = weakref.WeakSet()


def _reset_after_fork() -> None:
    """Forget the threads, which a child of a fork has not."""
    for workers in _all:
        workers._start_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
