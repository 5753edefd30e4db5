"""A qjit function under an eager transformation may be called by its own callbacks.

Here ``f`` calls itself by a callback, and ``jax.vmap`` transforms it outside of any program::

    @bellhop.qjit
    def f(n):
        again = lambda n: int(f(n - 1)) if n > 0 else 0
        return n + bellhop.pure_callback(again, int)(n)

    jax.vmap(f)(jnp.array([2, 1]))     [3, 1]

Replaced: ``jit_p.impl``, by which JAX runs a ``jit`` under eager transformations.  It runs each on
JAX's default device, which may be a GPU: those of ours run on the host.  And it keeps each
program in a cache for its C++ fast path, and holds a lock of the program's entry during its first
run.  For a program that the fast path does not take, it does so during every run.  A callback that
calls the same program would then be refused, and one that waits for a thread which calls it would
wait for ever.  Programs that call no Python still take the fast path; the exceptions behind its
``ValueError`` texts are found here.
Versions: 0.10 to 0.12.
Upstream: a cache that locks no entry while a program runs.
Installed: when a qjit function is first transformed outside of any program.
Test: ``test_eager_transformations.py``.
"""

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax._src import pjit  # noqa: TID251
from jax.extend.core.primitives import jit_p

from bellhop._jax.patches.fast_calls import keeps_alive, translated
from bellhop._patching import original, patch


@patch("the evaluation of jits under transformations", "callbacks may call their own function")
def patch_jit_evaluation(
    predicate: Callable[[str, Any], bool],
    calls_python: Callable[[Any], bool],
    exception_behind: Callable[[Exception], BaseException | None],
    gathered: Callable[[Any], Any],
    on_host: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    """Run a ``jit`` under eager transformations on the host, if it is of ours.

    It runs without JAX's cache, if it may call Python.

    Args:
        predicate: takes the name of a ``jit`` and its jaxpr; returns whether it is of ours.
        calls_python: takes an object that a program keeps alive; returns whether it calls Python.
        exception_behind: takes the error of a fast call; returns the exception of ours that the
            error stands for, or None.
        gathered: takes arrays; returns them in the memory of the host.
        on_host: returns a context in which JAX runs a ``jit`` of such arrays on the host.
    """
    run_by_jax = original(jit_p, "impl")
    run_jaxpr = original(pjit, "_pjit_call_impl_python")
    chosen: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()

    def run(*args: Any, jaxpr: Any, **params: Any) -> Any:
        evaluate = chosen.get(jaxpr)
        if evaluate is None:
            is_ours = predicate(params["name"], jaxpr.jaxpr)
            evaluate = chosen[jaxpr] = run_slowly if is_ours else run_by_jax
        if evaluate is run_by_jax:
            return run_by_jax(*args, jaxpr=jaxpr, **params)
        with on_host():
            return evaluate(*gathered(args), jaxpr=jaxpr, **params)

    def run_slowly(*args: Any, jaxpr: Any, **params: Any) -> Any:
        results, compiled, *_ = run_jaxpr(*args, jaxpr=jaxpr, **params)
        if not keeps_alive(compiled, calls_python):
            chosen[jaxpr] = run_fast
        return results

    def run_fast(*args: Any, **params: Any) -> Any:
        token = translated.set(True)
        try:
            return jax.block_until_ready(run_by_jax(*args, **params))
        except ValueError as error:
            failure = exception_behind(error)
            if failure is None:
                raise
        finally:
            translated.reset(token)
        raise failure

    jit_p.def_impl(run)
