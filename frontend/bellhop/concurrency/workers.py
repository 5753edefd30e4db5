"""Pool of threads that run Python functions, without deadlock for nested tasks.

    task = workers.submit(function, x)     # runs on a thread, if one of `limit` is free
    task.result()                          # runs here, if no thread has begun the task

So no task waits for a free thread: programs can be nested, and tasks that hold the GIL switch
threads rarely. Worker threads run tasks in a copy of the submitter's context.
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

# Seconds after which an idle thread ends.
_IDLE_SECONDS = 10.0


class Task:
    """A function call that waits for a worker thread, made by ``Workers.submit``.

    The first thread that claims the task makes the call. The pool holds a weak reference: a task
    that is garbage-collected before a thread began it is cancelled.

    Args:
        function: function to call. A worker thread calls it in a copy of the creating thread's
            context variables; the thread that waits for the result, in its own context.
        arguments: its positional arguments.
    """

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._call = function, arguments
        self._context = contextvars.copy_context()
        self._unclaimed = threading.Lock()
        self._running = threading.Lock()
        self._running.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def claim(self) -> bool:
        """Claim the task for the calling thread, which then must make the call.

        Returns:
            True for the first caller; False if a thread has claimed the task before.
        """
        return self._unclaimed.acquire(blocking=False)

    def run(self) -> None:
        """Make the call and save its result, unless another thread claimed this task."""
        if not self.claim():
            return
        function, arguments = self._call
        try:
            self._result = self._context.run(function, *arguments)
        except BaseException as error:
            self._error = error
        finally:
            self._running.release()

    def result(self) -> Any:
        """Return the call's result or raise its exception.

        Makes the call on this thread, in this thread's context, if no worker has begun it; else
        waits for the worker. May be called once.
        """
        if self.claim():
            function, arguments = self._call
            return function(*arguments)
        with self._running:
            error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result


class Workers:
    """A pool of at most ``limit`` threads, which start on demand and end when idle.

    Unlike ``ThreadPoolExecutor``, it cannot deadlock: a thread that waits for a task which no
    thread has begun runs the task itself.

    Args:
        limit: number of tasks that run concurrently, not counting tasks that waiting threads run
            themselves.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        """Set the initial state: an empty queue and no threads. Also called after a fork."""
        self._queue: queue.SimpleQueue[weakref.ref[Task]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Task:
        """Queue a call for a worker thread.

        The worker makes the call in a copy of the current context.

        Returns:
            the task; keep it until the result is needed, since dropping it cancels the call.
        """
        task = Task(function, arguments)
        with self._lock:
            self._queue.put(weakref.ref(task))
            if self._threads < self.limit:
                # If no thread can start, `Task.result` makes the call.
                with contextlib.suppress(RuntimeError):
                    _start(self._work)
                    self._threads += 1
        return task

    def _work(self) -> None:
        """Run queued tasks on this thread until none comes for `_IDLE_SECONDS`."""
        while True:
            try:
                task = self._queue.get(timeout=_IDLE_SECONDS)()
            except queue.Empty:
                with self._lock:
                    if self._queue.empty():
                        self._threads -= 1
                        return
                continue
            if task is not None:
                task.run()
            # Release the arguments and the result before waiting for the next task.
            del task

    def call_each(self, function: Callable[..., None], elements: Sequence[Sequence[Any]]) -> None:
        """Call a function once for each element, on this and on worker threads, and wait.

        Calls start in the order of the elements.

        Args:
            function: function to call; its result is ignored.
            elements: for each call, the sequence of positional arguments.

        Raises:
            BaseException: the exception of the lowest element that raised; no further calls start
                after an exception. An exception that is not an ``Exception``, such as
                KeyboardInterrupt, is raised at once.
        """
        indices = itertools.count()
        raised: dict[int, BaseException] = {}
        helpers: list[Task] = []

        def work() -> None:
            """Call the function for the next elements, until none is left or a call raised.

            Runs on the calling thread and on each worker thread, and first submits itself to one
            more worker.
            """
            # Each helper submits the next one, so that few threads start if the calls hold the GIL.
            if len(helpers) < min(self.limit, len(elements) - 1):
                helpers.append(self.submit(work))
            while not raised and (index := next(indices)) < len(elements):
                try:
                    function(*elements[index])
                except BaseException as error:
                    raised[index] = error
                    if not isinstance(error, Exception):
                        raise

        work()
        for helper in helpers:
            if not helper.claim():
                helper.result()
        if raised:
            raise raised[min(raised)]


class StartableFunction:
    """A callback's function, which can also run on a worker thread.

    With ``qjit(concurrent_callbacks=n)``, the runtime starts independent pure callbacks by `start`
    and waits for them later.

    Args:
        function: the Python function.
        workers: thread pool for started calls.
    """

    def __init__(self, function: Callable[..., Any], workers: Workers) -> None:
        self._function = function
        self._workers = workers

    def __call__(self, *arguments: Any) -> Any:
        """Call the function on the current thread."""
        return self._function(*arguments)

    def start(self, *arguments: Any) -> Callable[[], Any]:
        """Start a call on a worker thread.

        Args:
            *arguments: positional arguments of the function.

        Returns:
            a function without arguments that waits, and returns the result or raises the exception.
        """
        return self._workers.submit(self._function, *arguments).result


def _start(function: Callable[[], None]) -> None:
    """Call the function on a new thread, which does not delay the exit of the process."""
    # Daemon threads, so that an abandoned call does not delay the exit of the process.
    threading.Thread(target=function, name=HELPERS, daemon=True).start()


_all: weakref.WeakSet[Workers] = weakref.WeakSet()


def _reset_after_fork() -> None:
    """Reset all pools in a forked child process, which has no worker threads."""
    for workers in _all:
        workers._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
