"""Programs with callbacks in a plain ``jax.jit`` run without JAX's fast calls, synchronously.

Replaced: ``pjit._get_fastpath_data``, ``MeshExecutable.create_cpp_call`` and
``ExecuteReplicated.__call__``.  JAX's C++ fast path raises ``ValueError(text)`` for any failure;
a run that starts late, after its ``jit`` was dropped, would find its callbacks freed; and the token
that a failed run leaves on several devices would fail every later run with such an effect.
Versions: 0.10 and 0.11.
Upstream: fast calls raise ``JaxRuntimeError``, and JAX looks at tokens before it keeps them;
nothing public chooses.
Installed: when one of our calls is first lowered in a plain ``jax.jit``.
Test: ``test_stable_plain_jit.py`` and ``test_partitioned_programs.py``.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax._src import dispatch, pjit  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.private import is_ours
from bellhop._patching import original, patch
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

    Those with ordered effects of ours, whatever they keep alive, leave no token where they fail.

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
        ordered = list(filter(is_ours, run.ordered_effects))
        if not ordered and not any(map(is_meant, run.keepalive or ())):
            return run_by_jax(run, *args)
        before()
        # Where one device's part fails, the others wait for it, and XLA ends the process.
        devices = run.xla_executable.local_devices()
        try:
            with uninterrupted() if len(devices) > 1 else contextlib.nullcontext():
                results = run_by_jax(run, *args)
                left = dispatch.runtime_tokens.current_tokens
                jax.block_until_ready([left[effect] for effect in ordered if effect in left])
                if run.has_unordered_effects:
                    _wait_for_effects(devices)
                return jax.block_until_ready(results)
        except Exception:
            if ordered or run.has_unordered_effects:
                _forget_tokens(run.ordered_effects, devices)
            raise

    pxla.ExecuteReplicated.__call__ = run_to_the_end  # type: ignore[method-assign]
    pjit._get_fastpath_data = fast_call
    pxla.MeshExecutable.create_cpp_call = fast_call_ahead_of_time  # type: ignore[method-assign]


def _wait_for_effects(devices: Iterable[Any]) -> None:
    """Wait for the effects without order of a run, which may have no result to wait for."""
    for device in devices:
        if device in dispatch.runtime_tokens.output_runtime_tokens:
            dispatch.runtime_tokens.output_runtime_tokens[device].block_until_ready()


def _forget_tokens(effects: Iterable[Any], devices: Iterable[Any]) -> None:
    """Begin the order of effects anew, after a failed run."""
    tokens = dispatch.runtime_tokens
    for effect in effects:
        tokens.current_tokens.pop(effect, None)
    for device in devices:
        tokens.output_runtime_tokens.pop(device, None)
