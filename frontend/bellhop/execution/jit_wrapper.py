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
from bellhop.compiler.host_placement import check_context_on_host
from bellhop.compiler.program import Code, program_p
from bellhop.execution.jit_options import JitOptions
from bellhop.execution.pending_results import PendingResults, ResultForm
from bellhop_runtime import within


def compute_signature(static: Hashable, args: Args, kwargs: Kwargs) -> Hashable:
    """Return what JAX tells the programs of a function apart by now, of values or of tracers."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    avals = map(jax.typeof, leaves)
    types = tuple((aval.shape, aval.dtype, aval.weak_type) for aval in avals)
    return static, tree, types, trace_context()


class TraceRegistry:
    """The traces of one function that are under way.

    No lock is held while a function is traced, which is a user's code: only who wants the very
    program that is being traced waits for it.
    """

    def __init__(self) -> None:
        self._in_progress: dict[Hashable, tuple[int, threading.Event]] = {}

    @contextlib.contextmanager
    def register_trace(self, signature: Hashable) -> Iterator[None]:
        """Trace inside."""
        trace = threading.get_ident(), threading.Event()
        self._in_progress.setdefault(signature, trace)
        try:
            yield
        finally:
            if self._in_progress.get(signature) is trace:
                del self._in_progress[signature]
            trace[1].set()

    def wait_for_trace(self, signature: Hashable) -> None:
        """Wait where another thread is tracing this signature."""
        thread, is_traced = self._in_progress.get(signature, (None, None))
        if is_traced is not None and thread != threading.get_ident():
            within("waits for another thread, which traces it", is_traced.wait)


# Makes a program of static arguments, those with a position and those with a name; returns it and
# the structure of its result.
Compile = Callable[[Static, Any, Any], tuple[Code, Any]]


_NO_TABLE = np.zeros(2, np.uint32)


def wait_until_started(result: PyTree) -> None:
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


def pack_first_input(handle: jax.Array, static: Static) -> Any:
    """Return what the ``jax.jit`` of a qjit function takes before the arguments."""
    return handle if static is NO_STATIC else (handle, static)


def unpack_first_input(first: Any) -> tuple[Any, Static]:
    """Return the handle, and the static arguments."""
    return first if type(first) is tuple else (first, NO_STATIC)


def make_jit_wrapper(
    traces: TraceRegistry,
    name: str,
    jit_options: JitOptions,
    compile_: Compile,
) -> Any:
    """Return the ``jax.jit`` that a qjit function's programs are embedded into.

    It is lowered for each new signature, and that is when a program is made.

    Args:
        traces: those of the function that are under way.
        name: what the function is called.
        jit_options: the user's options of it.
        compile_: makes a program.
    """

    def embedded(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        handle, static = unpack_first_input(first)
        check_context_on_host()
        with traces.register_trace(compute_signature(static, args, kwargs)):
            code, out_tree = compile_(static, args, kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        # What is not used costs less of a call.
        table = handle if code.calls_runtime else _NO_TABLE
        results = program_p.bind(*code.select_operands(leaves), table, code=code, is_region=False)
        if code.targets or not code.out_avals:
            return PendingResults(ResultForm(out_tree, code), results)
        return jax.tree.unflatten(out_tree, results)

    embedded.__name__ = name
    donated = jit_options.donated
    return jax.jit(
        embedded,
        # The first argument is the handle.
        donate_argnums=tuple(number + 1 for number in donated.positions),
        donate_argnames=donated.names,
        keep_unused=jit_options.keep_unused,
        compiler_options=dict(jit_options.compiler_options) or None,
    )
