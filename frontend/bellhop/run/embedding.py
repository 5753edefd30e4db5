"""The ``jax.jit`` that a program is embedded into: its static arguments, and its results."""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from bellhop._jax.private import trace_context
from bellhop.base.static_arguments import NO_STATIC, Static
from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.compiler.code import Code, program_p
from bellhop.compiler.placement import refuse_context_elsewhere
from bellhop.run.unfinished import Form, Unfinished
from bellhop_runtime import within


def signature_of(static: Hashable, args: Args, kwargs: Kwargs) -> Hashable:
    """Return what JAX tells the programs of a function apart by now, of values or of tracers."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    avals = map(jax.typeof, leaves)
    types = tuple((aval.shape, aval.dtype, aval.weak_type) for aval in avals)
    return static, tree, types, trace_context()


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
            within("waits for another thread, which traces it", is_traced.wait)


# Makes a program of static arguments, those with a position and those with a name; returns it and
# the structure of its result.
Compile = Callable[[Static, Any, Any], tuple[Code, Any]]


_NO_TABLE = np.zeros(2, np.uint32)


def wait_for(result: PyTree) -> None:
    """Wait for a program that began late.

    Dispatch is synchronous except where an argument is still on its way: JAX copies large
    NumPy arrays on a thread of its own, and the program begins after that.
    """
    # All results come of the same run. To take a tree apart costs more than the rest.
    first = result[0] if type(result) is tuple and result else result
    if not isinstance(first, jax.Array):
        first = next(iter(jax.tree.leaves(result)), None)
    # Without jit, results may be NumPy's.
    if isinstance(first, jax.Array):
        first.block_until_ready()


def first_input(handle: jax.Array, static: Static) -> Any:
    """Return what the ``jax.jit`` of a qjit function takes before the arguments."""
    return handle if static is NO_STATIC else (handle, static)


def of_first_input(first: Any) -> tuple[Any, Static]:
    """Return the handle, and the static arguments."""
    return first if type(first) is tuple else (first, NO_STATIC)


def embedding_jit(
    traces: Traces,
    name: str,
    donated: tuple[int, ...],
    compile_: Compile,
) -> Any:
    """Return the ``jax.jit`` that a qjit function's programs are embedded into.

    It is lowered for each new signature, and that is when a program is made.

    Args:
        traces: those of the function that are under way.
        name: what the function is called.
        donated: which arguments are the program's to overwrite.
        compile_: makes a program.
    """

    def embedded(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        handle, static = of_first_input(first)
        refuse_context_elsewhere()
        with traces.tracing(signature_of(static, args, kwargs)):
            code, out_tree = compile_(static, args, kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        # What is not used costs less of a call.
        table = handle if code.calls_runtime else _NO_TABLE
        results = program_p.bind(*code.operands(leaves), table, code=code, is_region=False)
        if code.targets or not code.out_avals:
            return Unfinished(Form(out_tree, code), results)
        return jax.tree.unflatten(out_tree, results)

    embedded.__name__ = name
    donate = tuple(number + 1 for number in donated)
    return jax.jit(embedded, donate_argnums=donate)
