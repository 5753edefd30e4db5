"""The ``jax.jit`` that contains a program."""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from bellhop._jax.private import trace_context
from bellhop.arguments.static_arguments import NO_STATIC, Static
from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.compiler.host_placement import check_context_on_host
from bellhop.compiler.program import Code, program_p
from bellhop.execution.jit_options import JitOptions
from bellhop.execution.pending_results import PendingResults, ResultForm
from bellhop_runtime import within


def compute_signature(static: Hashable, args: Args, kwargs: Kwargs) -> Hashable:
    """Return the key of a call's program: calls with equal keys run the same program.

    The key consists of the static arguments, the structure and types of the dynamic arguments, and
    the present JAX settings that affect tracing. `args` and `kwargs` are pytrees of values or
    tracers.
    """
    leaves, tree = jax.tree.flatten((args, kwargs))
    avals = map(jax.typeof, leaves)
    types = tuple((aval.shape, aval.dtype, aval.weak_type) for aval in avals)
    return static, tree, types, trace_context()


class TraceRegistry:
    """The signatures of one qjit function that threads are tracing at present.

    It lets a second thread wait for a trace instead of repeating it. No lock is held while user
    code is traced: a thread waits only for another thread's trace of the same signature.
    """

    def __init__(self) -> None:
        self._in_progress: dict[Hashable, tuple[int, threading.Event]] = {}

    @contextlib.contextmanager
    def register_trace(self, signature: Hashable) -> Iterator[None]:
        """Register that this thread traces a signature inside of a ``with`` block.

        If another thread or an outer block traces it already, that registration stays. The
        signature is a key from `compute_signature`.
        """
        trace = threading.get_ident(), threading.Event()
        self._in_progress.setdefault(signature, trace)
        try:
            yield
        finally:
            if self._in_progress.get(signature) is trace:
                del self._in_progress[signature]
            trace[1].set()

    def wait_for_trace(self, signature: Hashable) -> None:
        """Wait while another thread traces this signature; return at once otherwise."""
        thread, is_traced = self._in_progress.get(signature, (None, None))
        if is_traced is not None and thread != threading.get_ident():
            within("waits for another thread, which traces it", is_traced.wait)


# Takes static, positional and keyword arguments; returns the program's code and the structure of
# its result.
Compile = Callable[[Static, Any, Any], tuple[Code, Any]]


_NO_TABLE = np.zeros(2, np.uint32)


def wait_until_finished(result: PyTree) -> None:
    """Wait until the execution that returned a result has finished.

    So the execution cannot start after the caller has returned. Nothing happens if the pytree
    contains no JAX arrays.
    """
    # Dispatch is synchronous except if an argument is not ready: JAX copies large NumPy arrays on
    # a separate thread, and the program starts after that.
    # All results belong to the same execution; flattening the tree would cost more.
    first = result[0] if type(result) is tuple and result else result
    if not isinstance(first, jax.Array):
        first = next(iter(jax.tree.leaves(result)), None)
    # With jax.disable_jit, results may be NumPy arrays.
    if isinstance(first, jax.Array):
        first.block_until_ready()


def pack_first_input(handle: jax.Array, static: Static) -> Any:
    """Build the first argument of the ``jax.jit``: ``handle`` or ``(handle, static)``."""
    return handle if static is NO_STATIC else (handle, static)


def unpack_first_input(first: Any) -> tuple[Any, Static]:
    """Split the first argument of the ``jax.jit`` into handle and static arguments.

    For a function without static arguments, the argument is the handle alone, and `NO_STATIC` is
    returned with it.
    """
    return first if type(first) is tuple else (first, NO_STATIC)


def make_jit_wrapper(
    traces: TraceRegistry,
    name: str,
    jit_options: JitOptions,
    compile_: Compile,
) -> Any:
    """Make the ``jax.jit`` function that compiles and runs the programs of a qjit function.

    It is traced for each new signature; the trace compiles a program and binds it as one equation,
    ``program_p``.

    Args:
        traces: the function's traces in progress.
        name: name of the function.
        jit_options: the user's options of ``jax.jit``.
        compile_: takes static, positional and keyword arguments, and compiles a program; returns
            its code and the ``PyTreeDef`` of the result.

    Returns:
        a ``jax.jit``. Its first argument is the callback table's handle, or a tuple of the handle
        and the static arguments; then follow the dynamic arguments, each a ``FlatTree``.
    """

    def embedded(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Compile the program for these arguments, and bind it as one equation.

        This function is traced by the ``jax.jit``.

        Args:
            first: the handle, or a tuple of the handle and the static arguments.
            *args: dynamic positional arguments, each a ``FlatTree``.
            **kwargs: dynamic keyword arguments, each a ``FlatTree``.

        Returns:
            the pytree of the result; `PendingResults`, which the caller must convert, if a result
            has a requested device, or the function returns no arrays.
        """
        handle, static = unpack_first_input(first)
        check_context_on_host()
        with traces.register_trace(compute_signature(static, args, kwargs)):
            code, out_tree = compile_(static, args, kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        # An unused table is a constant, which makes calls cheaper.
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
        donate_argnums=tuple(position + 1 for position in donated.positions),
        donate_argnames=donated.names,
        keep_unused=jit_options.keep_unused,
        compiler_options=dict(jit_options.compiler_options) or None,
    )
