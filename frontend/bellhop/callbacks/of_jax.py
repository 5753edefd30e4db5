"""JAX's own callbacks in our programs: ``jax.pure_callback``, ``jax.debug.print`` and the rest.

JAX hands the functions that a module calls to its executable, and a program of ours is embedded
into another module, whose executable knows nothing of them.  So these calls become calls of ours,
with JAX's rules for transformations and the runtime's for exceptions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from bellhop._jax_compat import emit_callbacks_by, ir_type, site_of_equation
from bellhop.callbacks.target import CallbackTarget
from bellhop.lowering import lowering_in_progress
from bellhop_mlir.dialects import callback as dialect


class _Function:
    """What JAX made of a user's function: leaves in, a tuple of leaves out."""

    def __init__(self, name: str, function: Callable[..., Sequence[Any]]) -> None:
        self.__name__ = name
        self._function = function

    def __call__(self, *leaves: Any) -> tuple[np.ndarray, ...]:
        return tuple(map(_canonical, self._function(*leaves)))


def _canonical(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def _emit(
    ctx: mlir.LoweringRuleContext,
    function: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    **_: Any,
) -> tuple[list[Any], Any, Any]:
    """Lower a call of JAX's to one of ours; the arguments are those of JAX's own function.

    Returns:
        the results, the token after the call where there was one before it, and the function,
        which JAX need not keep alive.
    """
    lowering = lowering_in_progress()
    assert lowering is not None
    name = str(ctx.primitive)
    target = CallbackTarget(
        flavour=f"jax.{name}",
        function=_Function(name, function),
        in_tree=jax.tree.structure(((0,) * len(operands), {})),
        out_tree=jax.tree.structure((0,) * len(result_avals)),
        result_avals=tuple(result_avals),
        site=site_of_equation(ctx),
        copies=True,
        vmap_method=None,
    )
    of_call = ctx.replace(avals_in=operand_avals, avals_out=result_avals)
    symbol = lowering.declare(of_call, target)
    types = [ir_type(ctx, aval) for aval in result_avals]
    kind = "io" if has_side_effect else "pure"
    if token is None:
        return list(dialect.call(symbol, kind, list(operands), types).results), None, None
    call = dialect.call(symbol, kind, [token, *operands], [token.type, *types])
    token, *results = call.results
    return results, token, None


emit_callbacks_by(_emit, where=lambda: lowering_in_progress() is not None)
