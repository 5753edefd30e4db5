"""Which signatures of a function are being traced."""

import contextlib
import threading
from collections.abc import Hashable, Iterator

import jax

from bellhop.base.types import Args, Kwargs


def signature_of(static: Hashable, args: Args, kwargs: Kwargs) -> Hashable:
    """Return what JAX tells the programs of a function apart by, of values or of tracers."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    avals = map(jax.typeof, leaves)
    return static, tree, tuple((aval.shape, aval.dtype, aval.weak_type) for aval in avals)


class Traces:
    """The traces of one function that are under way.

    No lock is held while a function is traced, which is a user's code: only who wants the very
    program that is being traced waits for it.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, tuple[int, threading.Event]] = {}

    @contextlib.contextmanager
    def tracing(self, signature: Hashable) -> Iterator[None]:
        """Trace inside."""
        trace = threading.get_ident(), threading.Event()
        self._under_way.setdefault(signature, trace)
        try:
            yield
        finally:
            if self._under_way.get(signature) is trace:
                del self._under_way[signature]
            trace[1].set()

    def wait_for(self, signature: Hashable) -> None:
        """Wait where another thread is tracing this signature."""
        thread, is_traced = self._under_way.get(signature, (None, None))
        if is_traced is not None and thread != threading.get_ident():
            is_traced.wait()
