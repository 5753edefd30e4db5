"""First runs of new signatures: what goes on from tracing to the end of the first run."""

import contextlib
import threading
from collections.abc import Hashable, Iterator
from typing import Any

import jax


def signature_of(static: Hashable, args: Any, kwargs: Any) -> Hashable:
    """Return what JAX tells the programs of a function apart by, of values or of tracers."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    avals = map(jax.typeof, leaves)
    return static, tree, tuple((aval.shape, aval.dtype, aval.weak_type) for aval in avals)


class FirstRuns:
    """The first runs of one function that are under way.

    JAX holds the entry of a signature in its cache of fast calls from before it is traced
    until the end of its first run: a callback that calls the function again would be refused
    there, and one that waits for another thread that does would wait for ever.  So while there
    is a first run, other calls go around that cache.

    No lock is held while a function is traced, which is a user's code: only who wants the very
    program that is being traced waits for it.

    Attributes:
        threads: those that are in a first run.
    """

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self._traces: dict[Hashable, tuple[int, threading.Event]] = {}

    def is_mine(self) -> bool:
        """Tell whether this thread is in a first run."""
        return threading.get_ident() in self.threads

    def begin(self) -> bool:
        """Begin a first run, before JAX does; tell whether no other is under way.

        Threads that find one another here all go around JAX's cache.
        """
        thread = threading.get_ident()
        if self.threads:
            return False
        self.threads.add(thread)
        if self.threads == {thread}:
            return True
        self.threads.discard(thread)
        return False

    @contextlib.contextmanager
    def tracing(self, signature: Hashable) -> Iterator[None]:
        """Begin a first run with what is traced inside."""
        thread = threading.get_ident()
        trace = thread, threading.Event()
        self.threads.add(thread)
        self._traces.setdefault(signature, trace)
        try:
            yield
        finally:
            if self._traces.get(signature) is trace:
                del self._traces[signature]
            trace[1].set()

    def wait_for_trace(self, signature: Hashable) -> None:
        """Wait where another thread is tracing this signature."""
        thread, is_traced = self._traces.get(signature, (None, None))
        if is_traced is not None and thread != threading.get_ident():
            is_traced.wait()

    def end(self) -> None:
        """End the first run of this thread, if it is in one."""
        self.threads.discard(threading.get_ident())
