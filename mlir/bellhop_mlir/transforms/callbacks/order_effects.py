"""order-effects: all effects of a program are in one order."""

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._walk import find_functions, function_type
from bellhop_mlir.dialects.callback import is_token
from bellhop_mlir.passes import Pass

# Ours: JAX does not use it.
_AFTER_ALL = "stablehlo.after_all"


class OrderEffects(Pass):
    """Let each operation that takes a token take that of the one before it.

    Before::

        func.func @main(%a: !stablehlo.token, %b: !stablehlo.token, %x: tensor<f64>) {
          %1 = "callback.call"(%a, %x) {callee = @f, kind = "io"}
          %2 = "callback.call"(%b, %x) {callee = @g, kind = "debug"}
          %3 = "callback.call"(%1, %x) {callee = @h, kind = "io"}
          return %3, %2

    After::

        func.func @main(%a: !stablehlo.token, %b: !stablehlo.token, %x: tensor<f64>) {
          %1 = "callback.call"(%a, %x) {callee = @f, kind = "io"}
          %2 = "callback.call"(%1, %x) {callee = @g, kind = "debug"}
          %3 = "callback.call"(%2, %x) {callee = @h, kind = "io"}
          %4 = stablehlo.after_all %3, %b
          return %3, %4

    JAX has a token for each kind of ordered effect, so ``jax.debug.callback``,
    ``jax.experimental.io_callback`` and callbacks of ours have an order each.  Where several
    tokens come to a block, or out of an operation, all come after the same calls, and any one will
    do.  A function returns each only once: XLA dies of a program with one token as two results.

    Preconditions: none.
    """

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        found = find_functions(module).values()
        if all(sum(map(is_token, function_type(op).inputs)) < 2 for op in found):
            return False
        for function in found:
            for block in function.regions[0].blocks:
                _order_block(block, None)
        return True


def _order_block(block: ir.Block, before: ir.Value | None) -> None:
    """Order the operations of a block, after what gave a token before it."""
    token = _first_token(block.arguments) or before
    for op in block.operations:
        if op.operation.name == _AFTER_ALL:
            continue
        if op.operation.name == "func.return" and token is not None:
            _return_each_once(op, token, block)
            continue
        taken = [place for place, value in enumerate(op.operands) if is_token(value.type)]
        if token is None and taken:
            # The first effect of a program that makes its tokens: that of a region.
            token = op.operands[taken[0]]
        for place in taken:
            op.operands[place] = token
        for region in op.regions:
            for inner in region.blocks:
                _order_block(inner, token)
        # A new token is nothing to wait for.
        token = (_first_token(op.results) if taken or len(op.regions) else None) or token


def _return_each_once(end: ir.Operation, token: ir.Value, block: ir.Block) -> None:
    """Return a token, and in the place of each further one another that comes after it."""
    places = [place for place, value in enumerate(end.operands) if is_token(value.type)]
    if not places:
        # A region that makes its tokens keeps them.
        return
    first, *others = places
    own = [value for value in block.arguments if is_token(value.type)]
    end.operands[first] = token
    for place, given in zip(others, own[1:], strict=True):
        last = end.operands[place].owner
        if isinstance(last, ir.Block) or last.name != _AFTER_ALL:
            with ir.InsertionPoint(end), end.location:
                end.operands[place] = stablehlo.after_all([token, given])


def _first_token(values: ir.BlockArgumentList | ir.OpResultList) -> ir.Value | None:
    return next((value for value in values if is_token(value.type)), None)
