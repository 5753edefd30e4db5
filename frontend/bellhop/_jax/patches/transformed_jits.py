"""A ``jit`` under transformations, with something of ours in it, may call itself.

Replaced: ``jit_p.impl``.  JAX's cache of fast calls locks the entry of a program during its first
run, and of a program that is kept out of fast calls during each run.  So a callback that calls the
same function is refused, and one that waits for another thread that does so waits for ever.
Programs that call no Python keep fast calls; their exceptions are made from the texts here.
Versions: 0.10 and 0.11.
Upstream: a cache of fast calls that locks no entry while a program runs.
Installed: when a qjit function is first transformed outside of any program.
Test: ``test_eager_transformations.py``.
"""

import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax._src import pjit  # noqa: TID251
from jax.extend.core.primitives import jit_p

from bellhop._jax.patches.fast_calls import keeps, translated
from bellhop._patching import original, patch


@patch("the evaluation of jits under transformations", "callbacks may call their own function")
def run_without_entries(
    is_meant: Callable[[Any], bool],
    calls_python: Callable[[Any], bool],
    exception_behind: Callable[[Exception], BaseException | None],
) -> None:
    """Keep jits under transformations out of JAX's cache of fast calls, if they may call Python.

    Args:
        is_meant: tells by the jaxpr whether something of ours is in it.
        calls_python: tells of an object that a program keeps alive whether it calls Python.
        exception_behind: returns the exception that the error of a fast call stands for, if any.
    """
    run_by_jax = original(jit_p, "impl")
    run_jaxpr = original(pjit, "_pjit_call_impl_python")
    chosen: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()

    def run(*args: Any, jaxpr: Any, **params: Any) -> Any:
        evaluate = chosen.get(jaxpr)
        if evaluate is None:
            evaluate = chosen[jaxpr] = run_slowly if is_meant(jaxpr.jaxpr) else run_by_jax
        return evaluate(*args, jaxpr=jaxpr, **params)

    def run_slowly(*args: Any, jaxpr: Any, **params: Any) -> Any:
        results, compiled, *_ = run_jaxpr(*args, jaxpr=jaxpr, **params)
        if not keeps(compiled, calls_python):
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
