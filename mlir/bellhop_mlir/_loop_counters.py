"""Loops whose counter may grow by more than one in an iteration."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import constant_integer, find_operations, find_producer

# Texts of the types of scalar integers.
_INTEGERS = frozenset(f"tensor<{sign}i{bits}>" for sign in ("", "u") for bits in (8, 16, 32, 64))


def has_long_steps(module: ir.Module) -> bool:
    """Return whether a loop's condition reads an integer that may grow by more than one.

    False for the loops of ``jax.lax.fori_loop`` and ``jax.lax.scan``, and for this loop::

        %0 = stablehlo.while(%i = %c) : tensor<i64>
        cond {
          %1 = stablehlo.compare LT, %i, %c_0
          stablehlo.return %1
        } do {
          %1 = stablehlo.add %i, %c_1          // %c_1 = stablehlo.constant dense<1>
          stablehlo.return %1
        }

    True if ``%c_1`` is another constant or no constant, or if ``%i`` changes otherwise.
    """
    return any(map(_has_long_step, find_operations(module.operation, "stablehlo.while")))


def _has_long_step(loop: ir.Operation) -> bool:
    """Return whether a ``stablehlo.while`` is a loop as in `has_long_steps`."""
    condition, body = (region.blocks[0] for region in loop.regions)
    results = list(body.operations)[-1].operands
    return any(
        str(argument.type) in _INTEGERS
        and list(argument.uses)
        and not _is_short_step(before, after)
        for argument, before, after in zip(
            condition.arguments, body.arguments, results, strict=True
        )
    )


def _is_short_step(before: ir.Value, after: ir.Value) -> bool:
    """Return whether a carried integer does not change, or grows or shrinks by one.

    Args:
        before: the integer at the beginning of the loop's body.
        after: the integer that the body returns.
    """
    if after == before:
        return True
    step = find_producer(after)
    if step is None or step.name not in ("stablehlo.add", "stablehlo.subtract"):
        return False
    left, right = step.operands
    return left == before and constant_integer(right) in (1, -1)
