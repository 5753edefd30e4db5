"""Lower a nested ``jit`` that is a region for the platform of its device.

In a program for the CPU that calls ``accelerate(f, dev=gpu)``, JAX's lowering rules see ::

    platforms=("cpu",)     in the program
    platforms=("cuda",)    in the nested jit of f; without this patch ("cpu",)

Replaced: the lowering rule of ``jit``.  All other ``jit`` equations use JAX's rule.
Versions: 0.10 to 0.12.
Upstream: a public way to lower a part of a module for another platform.
Issue: none reported.
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
    """Patch the lowering rule of ``jit``: some nested functions get another platform.

    From then on, JAX lowers a nested ``jit`` function for the platform that `choose` returns. Used
    for regions: parts of a program for the CPU that run on another device, such as a GPU.

    Args:
        choose: takes the name of a nested ``jit``; returns None to use the module's platform, or a
            platform and a dictionary. The dictionary must be the same throughout a module: it holds
            JAX's caches of lowered functions by platform.
    """
    lower_jit = original(pjit, "_pjit_lowering")

    def lower(ctx: Any, *args: Any, name: str, **params: Any) -> Any:
        """Lower a nested ``jit`` for the chosen platform, with that platform's caches."""
        chosen = choose(name)
        old = ctx.module_context
        if chosen is None or tuple(old.platforms) == (chosen[0],):
            return lower_jit(ctx, *args, name=name, **params)
        platform, caches = chosen
        # The module's own caches hold functions lowered for the module's platform.
        functions, primitives = caches.setdefault(platform, ({}, {}))
        inner = ctx.replace(
            module_context=old.replace(
                platforms=(platform,),
                backend=None,
                lowering_cache=functions,
                cached_primitive_lowerings=primitives,
            )
        )
        results = lower_jit(inner, *args, name=name, **params)
        if inner.tokens_out is not None:
            ctx.set_tokens_out(inner.tokens_out)
        return results

    mlir.register_lowering(jit_p, lower, cacheable=False)
