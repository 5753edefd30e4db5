"""Raise an error for reductions and scatters whose functions call Python.

For ``jax.lax.reduce(x, 1.0, lambda a, b: pure_callback(f, float)(a, b), (0,))``::

    CompileError: jax.lax.reduce (file.py:3): its function calls Python      with this patch
    XLA aborts the process                                                   without

Replaced: the lowerings of ``reduce_p``, ``reduce_window_p``, ``scatter_p`` and
``select_and_scatter_p``, whose parameters hold functions of the user.  XLA applies these functions
inside of one operation, which cannot contain a custom call, and aborts.
Versions: 0.10 to 0.12.
Upstream: an error of JAX for callbacks, its own included, in such functions.
Issue: jax#12615, of conditionals in such functions.
Installed: when the first callback or circuit is traced.
Test: ``tests/frontend/compiler/test_functions_in_operations.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src.lax import lax, slicing, windowed_reductions  # noqa: TID251
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.extend.core.primitives import (
    reduce_p,
    reduce_window_p,
    scatter_p,
    select_and_scatter_p,
)
from jax.interpreters import mlir

from bellhop._patching import original, patch

# Primitives with module and name of the lowering rule in JAX, and the public name of the operation.
_OPERATIONS = (
    (reduce_p, lax, "_reduce_lower", "jax.lax.reduce"),
    (
        reduce_window_p,
        windowed_reductions,
        "_generic_reduce_window_lower",
        "jax.lax.reduce_window",
    ),
    (scatter_p, slicing, "_scatter_lower", "jax.lax.scatter_apply"),
    (
        select_and_scatter_p,
        windowed_reductions,
        "_select_and_scatter_lower",
        "select-and-scatter",
    ),
)


@patch("the lowerings of reductions and scatters", "functions in them that call Python are refused")
def check_functions_in_operations(check: Callable[[str, Jaxpr], None]) -> None:
    """Check the functions of reductions and scatters when JAX lowers them.

    Replaces the lowering rules of the operations in ``_OPERATIONS``.

    Args:
        check: takes the public name of the operation, such as ``"jax.lax.reduce"``, and the jaxpr
            of a function in it; raises an error for functions that XLA cannot compile there.
    """
    # All rules before the first registration, which is not undone.
    rules = {
        primitive: _make_checked_lowering(original(module, name), operation, check)
        for primitive, module, name, operation in _OPERATIONS
    }
    for primitive, rule in rules.items():
        mlir.register_lowering(primitive, rule)


def _make_checked_lowering(
    lower_with_jax: Callable[..., Any], operation: str, check: Callable[[str, Jaxpr], None]
) -> Callable[..., Any]:
    """Make a lowering rule that first checks the jaxprs in an equation's parameters.

    Args:
        lower_with_jax: JAX's lowering rule, which is applied after the checks.
        operation: public name of the operation, for `check`.
        check: takes that name and a jaxpr; raises an error for unsupported functions.
    """

    def lower(ctx: Any, *operands: Any, **params: Any) -> Any:
        """Check the jaxprs of an equation and lower it by JAX's rule."""
        for value in params.values():
            if isinstance(value, ClosedJaxpr | Jaxpr):
                check(operation, getattr(value, "jaxpr", value))
        return lower_with_jax(ctx, *operands, **params)

    return lower
