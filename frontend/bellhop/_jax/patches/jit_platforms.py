"""A nested ``jit`` that is a region is lowered for the platform that it will run on.

In a program for the CPU that calls ``accelerate(f, dev=gpu)``, JAX's lowering rules see ::

    platforms=("cpu",)     in the program
    platforms=("cuda",)    in the nested jit of f; JAX alone: ("cpu",)

Replaced: the lowering rule of ``jit``.  Any ``jit`` that is no region is lowered by JAX's rule.
Versions: 0.10 to 0.12.
Upstream: public JAX lowers a module for one platform, or all of it for several.
Installed: by the first ``accelerate``.
Test: ``tests/frontend/accelerate``, on a machine with a GPU.
"""

from collections.abc import Callable
from typing import Any

from jax._src import pjit  # noqa: TID251
from jax.extend.core.primitives import jit_p
from jax.interpreters import mlir

from bellhop._patching import original, patch


@patch("the lowering rule of jit", "regions are lowered for the devices that they run on")
def choose_jit_platforms(
    choose: Callable[[str], tuple[str, dict[str, Any]] | None],
) -> None:
    """Let the name of a nested ``jit`` decide what platform it is lowered for.

    Args:
        choose: takes the name of a nested ``jit``; returns None to lower it for the platform of
            the module.  To lower it for another, returns that platform and a dictionary, the same
            one throughout a module, which keeps JAX's caches of lowered functions by platform.
    """
    lower_jit = original(pjit, "_pjit_lowering")

    def lower(ctx: Any, *args: Any, name: str, **params: Any) -> Any:
        chosen = choose(name)
        old = ctx.module_context
        if chosen is None or tuple(old.platforms) == (chosen[0],):
            return lower_jit(ctx, *args, name=name, **params)
        platform, caches = chosen
        # The caches of the module hold functions that were lowered for its own platform.
        own, primitives = caches.setdefault(platform, ({}, {}))
        inner = ctx.replace(
            module_context=old.replace(
                platforms=(platform,),
                backend=None,
                lowering_cache=own,
                cached_primitive_lowerings=primitives,
            )
        )
        results = lower_jit(inner, *args, name=name, **params)
        if inner.tokens_out is not None:
            ctx.set_tokens_out(inner.tokens_out)
        return results

    mlir.register_lowering(jit_p, lower, cacheable=False)
