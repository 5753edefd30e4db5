"""order-effects: give all effects of a program one order."""

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._walk import find_functions, function_type
from bellhop_mlir.dialects.callback import is_token
from bellhop_mlir.passes import Pass

# Only Bellhop's passes generate this operation; JAX does not use it.
_AFTER_ALL = "stablehlo.after_all"


class OrderEffects(Pass):
    """Thread one token through all operations that take tokens, in program order.

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
    ``jax.experimental.io_callback`` and Bellhop's callbacks have separate orders.  If a block or an
    operation has several tokens, all of them follow the same calls, and the pass uses the first.
    A function returns distinct tokens: XLA crashes if two results are the same token.

    Preconditions: none.
    """

    def apply(self, module: ir.Module) -> bool:
        """Order all effects of ``module``, in place.

        Returns:
            False if the module is unchanged: if no function takes several tokens.
        """
        found = find_functions(module).values()
        if all(sum(map(is_token, function_type(op).inputs)) < 2 for op in found):
            return False
        for function in found:
            for block in function.regions[0].blocks:
                _order_block(block, None)
        return True


def _order_block(block: ir.Block, before: ir.Value | None) -> None:
    """Thread one token through the operations of a block that take tokens.

    Blocks of nested operations are ordered too.

    Args:
        block: the block.
        before: the token that the block begins with, if the block has no token argument; None if
            there were no effects before.
    """
    token = _first_token(block.arguments) or before
    for op in block.operations:
        if op.operation.name == _AFTER_ALL:
            continue
        if op.operation.name == "func.return" and token is not None:
            _return_distinct_tokens(op, token, block)
            continue
        taken = [place for place, value in enumerate(op.operands) if is_token(value.type)]
        if token is None and taken:
            # First effect of a function that creates its token, as regions do.
            token = op.operands[taken[0]]
        for place in taken:
            op.operands[place] = token
        for region in op.regions:
            for inner in region.blocks:
                _order_block(inner, token)
        # The token of an operation without token operands is new, and orders nothing.
        token = (_first_token(op.results) if taken or len(op.regions) else None) or token


def _return_distinct_tokens(end: ir.Operation, token: ir.Value, block: ir.Block) -> None:
    """Make a function return the last effect's token first, then distinct tokens.

    Each further token is a ``stablehlo.after_all`` of the last token and an argument of the
    function, as XLA crashes if two results are the same token.

    Args:
        end: the ``func.return``, whose token operands are replaced.
        token: token of the last operation with effects.
        block: the function's block, with a token argument for each token that it returns.
    """
    places = [place for place, value in enumerate(end.operands) if is_token(value.type)]
    if not places:
        # A region that creates its token does not return it.
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
    """Return the first of some values that is a ``!stablehlo.token``, or None."""
    return next((value for value in values if is_token(value.type)), None)
