"""Programs with callbacks in a plain ``jax.jit`` run without JAX's fast calls, synchronously.

Replaced: ``pjit._get_fastpath_data``, ``MeshExecutable.create_cpp_call`` and
``ExecuteReplicated.__call__``.  JAX's C++ fast path raises ``ValueError(text)`` for any failure;
and a run that starts late, after its ``jit`` was dropped, would find its callbacks freed.
Versions: 0.10 and 0.11.
Upstream: fast calls raise ``JaxRuntimeError``; nothing public chooses.
Installed: when one of our calls is first lowered in a plain ``jax.jit``.
Test: ``test_stable_plain_jit.py``.
"""

import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

import jax
from jax._src import pjit  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.patches import original, patch
from bellhop_runtime._interrupts import uninterrupted

# Whether the caller itself makes exceptions of such texts, and waits for the run.
translated: contextvars.ContextVar[bool] = contextvars.ContextVar("translated", default=False)


def keeps(executable: Any, is_meant: Callable[[Any], bool]) -> bool:
    """Tell whether an executable keeps an object alive for which ``is_meant`` is true."""
    kept = getattr(getattr(executable, "unsafe_call", None), "keepalive", None)
    return any(map(is_meant, kept or ()))


@patch(
    "the fast calls of jit and of Compiled", "exceptions of callbacks in a plain jax.jit stay whole"
)
def run_without_fast_calls(is_meant: Callable[[Any], bool], before: Callable[[], None]) -> None:
    """Keep programs out of JAX's fast calls, and wait for their runs, by what they keep alive.

    A run starts late if an argument is not ready yet.  What it needs must still be alive then, but
    its ``jit`` may be dropped as soon as the call has returned.

    Args:
        is_meant: tells of an object that a program keeps alive whether this is one.
        before: called in the thread of the caller before each run.
    """

    fast_by_jax = original(pjit, "_get_fastpath_data")
    fast_ahead_by_jax = original(pxla.MeshExecutable, "create_cpp_call")
    run_by_jax = original(pxla.ExecuteReplicated, "__call__")

    def is_slow(executable: Any) -> bool:
        return not translated.get() and keeps(executable, is_meant)

    def fast_call(executable: Any, *args: Any, **kwargs: Any) -> Any:
        return None if is_slow(executable) else fast_by_jax(executable, *args, **kwargs)

    def fast_call_ahead_of_time(executable: Any, *args: Any, **kwargs: Any) -> Any:
        if is_slow(executable):
            return None
        return fast_ahead_by_jax(executable, *args, **kwargs)

    def run_to_the_end(run: Any, *args: Any) -> Any:
        if not any(map(is_meant, run.keepalive or ())):
            return run_by_jax(run, *args)
        before()
        # Where one device's part fails, the others wait for it, and XLA ends the process.
        is_partitioned = len(run.xla_executable.local_devices()) > 1
        with uninterrupted() if is_partitioned else contextlib.nullcontext():
            return jax.block_until_ready(run_by_jax(run, *args))

    pxla.ExecuteReplicated.__call__ = run_to_the_end  # type: ignore[method-assign]
    pjit._get_fastpath_data = fast_call
    pxla.MeshExecutable.create_cpp_call = fast_call_ahead_of_time  # type: ignore[method-assign]
