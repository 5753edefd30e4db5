"""Our primitives in programs that JAX compiles for a GPU or TPU: each is one call to the host.

``jax.jit(lambda x: 2 * circuit(x))``, compiled for a GPU, is lowered by JAX.  The lowering rule of
the circuit compiles a program of it for the host, and emits JAX's own callback, which runs that::

    %0 = stablehlo.custom_call @xla_ffi_python_gpu_callback(%x) {index = 0}
    %1 = stablehlo.multiply %cst, %0

However many gates it has, its arguments and its results cross once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ordered_effects, run_compiled
from bellhop.compiler.delegation import lower_to_call
from bellhop.compiler.failures import with_failures
from bellhop.compiler.placement import on_host

# Takes arguments, and arrays that it writes results into.
HostCall = Callable[[list[np.ndarray], list[np.ndarray]], None]


def host_call(
    primitive: Primitive, params: dict[str, Any], avals: Sequence[Any]
) -> tuple[HostCall, Any]:
    """Compile a primitive for the host.

    Args:
        primitive: one of ours.
        params: those of the equation.
        avals: the types of the operands.

    Returns:
        what runs it, and its jaxpr.
    """

    def alone(*args: Any) -> Any:
        return primitive.bind(*args, **params)

    alone.__name__ = params.get("name", primitive.name)
    with on_host():
        traced = jax.jit(alone).trace(*avals)
        executable = with_failures(traced.lower().compile)

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        with on_host():
            values = run_compiled(executable, None, *arguments)
        for result, value in zip(results, values, strict=True):
            result[...] = value

    return call, traced.jaxpr


def lower_host_call(
    ctx: mlir.LoweringRuleContext, call: HostCall, jaxpr: Any, operands: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit a call to the host, ordered and kept as the effects of the primitive say."""
    ordered = ordered_effects(jaxpr)
    tokens = [ctx.tokens_in.get(effect) for effect in ordered]
    token = stablehlo.after_all(tokens) if len(tokens) > 1 else next(iter(tokens), None)
    kind = "io" if jaxpr.effects else "pure"
    results, token = lower_to_call(ctx, call, kind, operands, token)
    if ordered:
        after = mlir.TokenSet(dict.fromkeys(ordered, token))
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(after))
    return results
