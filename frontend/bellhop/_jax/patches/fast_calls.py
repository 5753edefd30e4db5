"""A plain ``jax.jit`` with callbacks of ours avoids JAX's C++ fast path, and waits for its run.

For ``f = jax.jit(g)``, where ``g`` has a callback of ours that raises ``KeyError``::

                   JAX                                     with this patch
    first call     JaxRuntimeError(text)                   JaxRuntimeError(text)
    later calls    ValueError(text), from the fast path    JaxRuntimeError(text)

``runtime_error`` then makes the ``KeyError`` of the ``JaxRuntimeError``.

Replaced: ``pjit._get_fastpath_data``, ``MeshExecutable.create_cpp_call`` and
``ExecuteReplicated.__call__``, for four reasons.  The fast path raises ``ValueError(text)`` for
any failure.  A run may start after the call has returned; if the ``jit`` is dropped meanwhile, its
callbacks are freed before they are called.  The token that a failed run on several devices
leaves behind would make every later run with the same effect fail.
A run whose devices wait for each other raises what failed when it has ended (``around``).
Versions: 0.10 to 0.12.
Upstream: fast calls that raise ``JaxRuntimeError``, and tokens of failed runs that JAX drops.  JAX
has no public option to avoid the fast path.
Installed: when one of our calls is first lowered in a plain ``jax.jit``.
Test: ``test_stable_plain_jit.py`` and ``test_partitioned_programs.py``.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax._src import dispatch, pjit  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.private import is_bellhop_effect
from bellhop._patching import original, patch
from bellhop_runtime._interrupts import uninterrupted

# Whether the caller waits for the run, and finds the exception behind the text of a ``ValueError``.
translated: contextvars.ContextVar[bool] = contextvars.ContextVar("translated", default=False)


def keeps_alive(executable: Any, predicate: Callable[[Any], bool]) -> bool:
    """Tell whether an executable keeps an object alive for which ``predicate`` is true."""
    kept = getattr(getattr(executable, "unsafe_call", None), "keepalive", None)
    return any(map(predicate, kept or ()))


@patch(
    "the fast calls of jit and of Compiled", "exceptions of callbacks in a plain jax.jit stay whole"
)
def run_without_fast_calls(
    predicate: Callable[[Any], bool],
    before: Callable[[], None],
    around: Callable[[Any, Sequence[Any], Callable[[], Any]], Any],
) -> None:
    """Keep some programs out of JAX's fast path, and return from their calls when they have run.

    XLA starts a run late if an argument is not ready yet.  The callbacks must still be alive then,
    although the user may drop the ``jit`` as soon as the call has returned.

    When a program with ordered effects of ours fails, its tokens are dropped, whether or not it is
    one of those programs.

    Args:
        predicate: takes an object that a program keeps alive; returns whether that makes it one of
            the programs.
        before: is called in the thread of the caller before each run.
        around: takes XLA's executable, the objects that the program keeps alive, and a function
            that runs the program to its end; calls that and returns its result.
    """

    fast_by_jax = original(pjit, "_get_fastpath_data")
    fast_ahead_by_jax = original(pxla.MeshExecutable, "create_cpp_call")
    run_by_jax = original(pxla.ExecuteReplicated, "__call__")

    def is_slow(executable: Any) -> bool:
        return not translated.get() and keeps_alive(executable, predicate)

    def fast_call(executable: Any, *args: Any, **kwargs: Any) -> Any:
        return None if is_slow(executable) else fast_by_jax(executable, *args, **kwargs)

    def fast_call_ahead_of_time(executable: Any, *args: Any, **kwargs: Any) -> Any:
        if is_slow(executable):
            return None
        return fast_ahead_by_jax(executable, *args, **kwargs)

    def run_to_the_end(run: Any, *args: Any) -> Any:
        ordered = list(filter(is_bellhop_effect, run.ordered_effects))
        if not ordered and not any(map(predicate, run.keepalive or ())):
            return run_by_jax(run, *args)
        before()
        return around(
            run.xla_executable, run.keepalive or (), lambda: run_and_wait(run, ordered, *args)
        )

    def run_and_wait(run: Any, ordered: Sequence[Any], *args: Any) -> Any:
        # If Ctrl-C failed the part of one device, the others would wait for it until XLA ends the
        # process.
        devices = run.xla_executable.local_devices()
        has_token = run.has_unordered_effects or run.has_host_callbacks
        try:
            with uninterrupted() if len(devices) > 1 else contextlib.nullcontext():
                results = run_by_jax(run, *args)
                left = dispatch.runtime_tokens.current_tokens
                jax.block_until_ready([left[effect] for effect in ordered if effect in left])
                if has_token:
                    _wait_for_effects(devices)
                return jax.block_until_ready(results)
        except Exception:
            if ordered or has_token:
                _forget_tokens(run.ordered_effects, devices)
            raise

    pxla.ExecuteReplicated.__call__ = run_to_the_end  # type: ignore[method-assign]
    pjit._get_fastpath_data = fast_call
    pxla.MeshExecutable.create_cpp_call = fast_call_ahead_of_time  # type: ignore[method-assign]


def _wait_for_effects(devices: Iterable[Any]) -> None:
    """Wait for the unordered effects of a run, which may have no result to wait for."""
    for device in devices:
        if device in dispatch.runtime_tokens.output_runtime_tokens:
            dispatch.runtime_tokens.output_runtime_tokens[device].block_until_ready()


def _forget_tokens(effects: Iterable[Any], devices: Iterable[Any]) -> None:
    """Drop the tokens of effects, so that the next run does not wait for the failed one."""
    tokens = dispatch.runtime_tokens
    for effect in effects:
        tokens.current_tokens.pop(effect, None)
    for device in devices:
        tokens.output_runtime_tokens.pop(device, None)
