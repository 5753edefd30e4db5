"""A ``jit`` under transformations, with something of ours in it, may call itself.

Replaced: ``jit_p.impl``.  JAX looks its fast calls up in a cache that holds the entry of a program
during its first run, and for ever during those of what is kept out of fast calls: a callback that
calls the same function again is refused there, and one that waits for a thread that does waits
for ever.
Versions: 0.10 and 0.11.
Upstream: a cache of fast calls that holds no entry while it runs a program.
Put in: when a qjit function is first transformed outside of any program.
Test: ``test_eager_transformations.py``.
"""

import weakref
from collections.abc import Callable
from typing import Any

from jax._src import pjit  # noqa: TID251
from jax.extend.core.primitives import jit_p

from bellhop._jax.patches import original, patch


@patch("the evaluation of jits under transformations", "callbacks may call their own function")
def run_without_entries(is_meant: Callable[[Any], bool]) -> None:
    """Keep jits under transformations out of JAX's cache of fast calls.

    Args:
        is_meant: tells by the jaxpr whether this is done.
    """
    run_by_jax = original(jit_p, "impl")
    run_jaxpr = original(pjit, "_pjit_call_impl_python")
    are_meant: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def run(*args: Any, jaxpr: Any, **params: Any) -> Any:
        is_one = are_meant.get(jaxpr)
        if is_one is None:
            is_one = are_meant[jaxpr] = is_meant(jaxpr.jaxpr)
        return (
            run_jaxpr(*args, jaxpr=jaxpr, **params)[0]
            if is_one
            else run_by_jax(*args, jaxpr=jaxpr, **params)
        )

    jit_p.def_impl(run)
