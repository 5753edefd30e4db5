"""Keep plain ``jax.jit`` functions with Bellhop callbacks out of the C++ fast path in JAX.

For ``f = jax.jit(g)``, where ``g`` has a Bellhop callback that raises ``KeyError``::

                   JAX                                     with this patch
    first call     JaxRuntimeError(text)                   JaxRuntimeError(text)
    later calls    ValueError(text), from the fast path    JaxRuntimeError(text)

``runtime_error`` then converts the ``JaxRuntimeError`` to the ``KeyError``.

Replaced: ``pjit._get_fastpath_data``, ``MeshExecutable.create_cpp_call`` and
``ExecuteReplicated.__call__``, for four reasons.  The fast path raises ``ValueError(text)`` for
any failure.  An execution may start after the call has returned; if the ``jit`` is deleted
meanwhile, its callbacks are freed before they are called.  The token of a failed execution on
several devices would make every later execution with the same effect fail.  If devices wait for
each other, the exception is raised when the execution has ended (``around``).
Versions: 0.10 to 0.12.
Upstream: fast calls that raise ``JaxRuntimeError``, and JAX dropping the tokens of failed
executions.  JAX has no public option to avoid the fast path.
Issue: jax#34083.
Installed: when a call of Bellhop is first lowered in a plain ``jax.jit``.
Test: ``test_stable_plain_jit.py`` and ``test_partitioned_programs.py``.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax._src import dispatch, pjit  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.patches.plain_jit_calls import compilation, patch_plain_jit_calls
from bellhop._jax.private import is_bellhop_effect
from bellhop._patching import original, patch, replace
from bellhop_runtime._interrupts import uninterrupted

# Whether the caller waits for the execution and converts ``ValueError`` to the original exception.
translated: contextvars.ContextVar[bool] = contextvars.ContextVar("translated", default=False)


def keeps_alive(executable: Any, predicate: Callable[[Any], bool]) -> bool:
    """Return whether an executable references an object that satisfies `predicate`."""
    kept = getattr(getattr(executable, "unsafe_call", None), "keepalive", None)
    return any(map(predicate, kept or ()))


@patch(
    "the fast calls of jit and of Compiled", "exceptions of callbacks in a plain jax.jit stay whole"
)
def patch_fast_calls(
    predicate: Callable[[Any], bool],
    before_run: Callable[[], None],
    around: Callable[[Any, Sequence[Any], Callable[[], Any]], Any],
) -> None:
    """Replace JAX's execution of selected programs by a slow path that waits for their end.

    A selected program runs on JAX's slow path, or through the C++ cache of ``plain_jit_calls``, and
    its call returns when the execution has ended. XLA starts an execution late if an argument is
    not ready, and the user may delete the ``jit``, and with it the callbacks, as soon as the call
    has returned.

    A call of a program with Bellhop's ordered effects waits too, whether `predicate` selects the
    program or not. If the execution of such a program, or of a selected program with effects,
    fails, its tokens are dropped.

    Args:
        predicate: takes an object that a program keeps alive; returns whether the program is
            selected.
        before_run: called on the caller's thread before each execution that is waited for.
        around: called for each execution that is waited for. It takes XLA's executable, the objects
            that the program keeps alive, and a function that executes the program synchronously;
            calls the function and returns its result.
    """

    jax_fast_call = original(pjit, "_get_fastpath_data")
    jax_create_cpp_call = original(pxla.MeshExecutable, "create_cpp_call")
    jax_run = original(pxla.ExecuteReplicated, "__call__")

    def is_slow(executable: Any) -> bool:
        """Return whether a program is selected, and must not use the fast path in JAX."""
        return not translated.get() and keeps_alive(executable, predicate)

    def fast_call(executable: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the fast-path data of a ``jit`` program, or None for the slow path.

        This function replaces ``pjit._get_fastpath_data``.
        """
        if executable is None or is_slow(executable):
            return None
        return jax_fast_call(executable, *args, **kwargs)

    def fast_call_ahead_of_time(executable: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the C++ function that calls a ``Compiled``, or None for the slow path.

        This function replaces ``MeshExecutable.create_cpp_call``.
        """
        if is_slow(executable):
            return None
        return jax_create_cpp_call(executable, *args, **kwargs)

    def run_to_the_end(run: Any, *args: Any) -> Any:
        """Execute a program; wait for its end if it is selected or has ordered effects.

        Only Bellhop's ordered effects count. If this thread compiles the program without executing
        it (``compilation.results``), placeholders are returned. This function replaces
        ``ExecuteReplicated.__call__``.

        Args:
            run: JAX's ``ExecuteReplicated``, the caller of one executable.
            *args: flat arguments of the program.
        """
        if compilation.results is not None:
            return compilation.results
        ordered = list(filter(is_bellhop_effect, run.ordered_effects))
        if not ordered and not any(map(predicate, run.keepalive or ())):
            return jax_run(run, *args)
        before_run()
        return around(
            run.xla_executable, run.keepalive or (), lambda: run_and_wait(run, ordered, *args)
        )

    def run_and_wait(run: Any, ordered: Sequence[Any], *args: Any) -> Any:
        """Execute a program and wait for its end; drop its tokens if it fails.

        Args:
            run: JAX's ``ExecuteReplicated``, the caller of one executable.
            ordered: the program's ordered effects of Bellhop, whose tokens are awaited.
            *args: flat arguments of the program.

        Returns:
            the flat results, which are ready.
        """
        # If KeyboardInterrupt stopped one device, other devices would wait for it until XLA aborts
        # the process.
        devices = run.xla_executable.local_devices()
        has_token = run.has_unordered_effects or run.has_host_callbacks
        try:
            with uninterrupted() if len(devices) > 1 else contextlib.nullcontext():
                results = jax_run(run, *args)
                tokens = dispatch.runtime_tokens.current_tokens
                jax.block_until_ready([tokens[effect] for effect in ordered if effect in tokens])
                if has_token:
                    _wait_for_effects(devices)
                return jax.block_until_ready(results)
        except Exception:
            if ordered or has_token:
                _forget_tokens(run.ordered_effects, devices)
            raise

    replace(pxla.ExecuteReplicated, "__call__", run_to_the_end)
    replace(pjit, "_get_fastpath_data", fast_call)
    patch_plain_jit_calls(lambda executable: keeps_alive(executable, predicate), before_run)
    replace(pxla.MeshExecutable, "create_cpp_call", fast_call_ahead_of_time)


def _wait_for_effects(devices: Iterable[Any]) -> None:
    """Wait for the unordered effects of the last execution on each device.

    The program may have no results to wait for.
    """
    for device in devices:
        if device in dispatch.runtime_tokens.output_runtime_tokens:
            dispatch.runtime_tokens.output_runtime_tokens[device].block_until_ready()


def _forget_tokens(effects: Iterable[Any], devices: Iterable[Any]) -> None:
    """Drop the tokens of a failed execution, on which later executions depend.

    Args:
        effects: ordered effects, whose tokens are dropped.
        devices: devices whose tokens of unordered effects are dropped.
    """
    tokens = dispatch.runtime_tokens
    for effect in effects:
        tokens.current_tokens.pop(effect, None)
    for device in devices:
        tokens.output_runtime_tokens.pop(device, None)
