"""Allow recursive calls of qjit functions under eager JAX transformations.

Here ``f`` calls itself in a callback, and ``jax.vmap`` transforms it outside of any program::

    @bellhop.qjit
    def f(n):
        rest = lambda n: int(f(n - 1)) if n > 0 else 0
        return n + bellhop.pure_callback(rest, int)(n)

    jax.vmap(f)(jnp.array([2, 1]))     [3, 1]

Replaced: ``jit_p.impl``, which executes a ``jit`` under eager transformations.  JAX's function uses
the default device, which may be a GPU, but Bellhop's programs run on the host.  It also caches each
program for its C++ fast path, and locks the program's entry during the first execution, or during
every execution if the program does not support the fast path.  A callback that calls the same
program would then raise, and a callback that waits for a thread which calls it would deadlock.
Programs without callbacks still use the fast path; the patch finds the exceptions for its
``ValueError`` messages.
Versions: 0.10 to 0.12.
Upstream: a cache without locks while a program runs.
Issue: none reported.
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
    find_exception: Callable[[Exception], BaseException | None],
    to_host: Callable[[Any], Any],
    use_host: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    """Patch JAX to run Bellhop's ``jit`` functions on the host under transformations.

    For example, ``jax.vmap(qjit(f))(x)`` outside of any program evaluates a ``jit`` eagerly. Such a
    ``jit`` runs without JAX's cache if it may call Python: the cache's lock would block recursive
    calls.

    Args:
        predicate: takes the name of a ``jit`` and its jaxpr; returns whether it belongs to Bellhop.
        calls_python: takes an object that a program keeps alive; returns whether it calls Python.
        find_exception: takes the error of a fast call; returns the original exception, or None.
        to_host: copies arrays to the memory of the host.
        use_host: returns a context in which JAX runs a ``jit`` of such arrays on the host.
    """
    run_with_jax = original(jit_p, "impl")
    run_jaxpr = original(pjit, "_pjit_call_impl_python")
    evaluators: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()

    def run(*args: Any, jaxpr: Any, **params: Any) -> Any:
        """Evaluate a ``jit``: Bellhop's functions on the host, all others as JAX does.

        This function replaces the evaluation rule of ``jit_p``. It stores for each jaxpr whether
        `run_with_jax`, `run_slowly` or `run_fast` evaluates it.
        """
        evaluate = evaluators.get(jaxpr)
        if evaluate is None:
            is_ours = predicate(params["name"], jaxpr.jaxpr)
            evaluate = evaluators[jaxpr] = run_slowly if is_ours else run_with_jax
        if evaluate is run_with_jax:
            return run_with_jax(*args, jaxpr=jaxpr, **params)
        with use_host():
            return evaluate(*to_host(args), jaxpr=jaxpr, **params)

    def run_slowly(*args: Any, jaxpr: Any, **params: Any) -> Any:
        """Evaluate a ``jit`` without JAX's C++ cache, and set the rule for later calls.

        Later evaluations of the same jaxpr use the cache if the program cannot call Python.
        """
        results, compiled, *_ = run_jaxpr(*args, jaxpr=jaxpr, **params)
        if not keeps_alive(compiled, calls_python):
            evaluators[jaxpr] = run_fast
        return results

    def run_fast(*args: Any, **params: Any) -> Any:
        """Evaluate a ``jit`` with JAX's C++ cache, and wait for its results.

        Raises:
            Exception: the original exception of a failure, if `find_exception` finds it; else JAX's
                ``ValueError``.
        """
        token = translated.set(True)
        try:
            return jax.block_until_ready(run_with_jax(*args, **params))
        except ValueError as error:
            failure = find_exception(error)
            if failure is None:
                raise
        finally:
            translated.reset(token)
        raise failure

    jit_p.def_impl(run)
