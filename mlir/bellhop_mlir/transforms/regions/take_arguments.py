"""take-arguments: pass handles of the program's arguments to regions."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    find_producer,
    list_operations,
    string_attribute,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.transforms.regions.region_variants import RegionVariants

# Operations whose results are their operands: JAX adds the first around each random key, which has
# no effect on one device; `jax.checkpoint` adds the second.
_IDENTITY_OPERATIONS = ("sdy.sharding_constraint", "stablehlo.optimization_barrier")


class TakeArguments(Pass):
    """Pass handles of the program's arguments to regions, instead of the arguments.

    A region is a nested module that runs on another device. The handle of an argument is a constant
    by which the runtime finds the argument where the program's caller has it.

    Before::

        func.func public @main(%w: tensor<8xf64>, %x: tensor<f64>) {
          %y = "callback.call"(%w, %x) {callee = @region, kind = "pure"} ...

    After::

        func.func public @main(%w: tensor<8xf64>, %x: tensor<f64>) {
          %0 = stablehlo.constant dense<[0, 2147483648]> : tensor<2xui32>
          %1 = stablehlo.constant dense<[1, 2147483648]> : tensor<2xui32>
          %y = "callback.call"(%0, %1) {callee = @region_0, kind = "pure"} ...

    The program runs on the host: if it took an array on the region's device as an operand, the
    array would be copied to the host and back.  After the passes, the frontend removes the
    arguments of ``@main`` that have no uses left.

    Preconditions: keep-on-device ran before, and the declarations of regions still name their
    modules.
    """

    needs = ("callback.call",)

    def apply(self, module: ir.Module) -> bool:
        """Pass handles of arguments of ``@main`` to regions, in place.

        If a region takes such a handle, the module gets the attribute ``bellhop.takes_arguments``.

        Returns:
            whether a region takes a handle of an argument now, or an unused value was dropped.
        """
        regions = RegionVariants(module)
        main = find_functions(module)["main"]
        (block,) = main.regions[0].blocks
        numbers = {
            value: number
            for number, value in enumerate(
                value for value in block.arguments if not callback.is_token(value.type)
            )
        }
        handles: dict[int, ir.Value] = {}
        for call in find_operations(main, "callback.call"):
            if (
                not regions.is_region(symbol_attribute(call))
                or string_attribute(call, "kind") == "release"
            ):
                continue
            is_ordered = callback.CallOp(call).is_ordered
            places = [i for i, value in enumerate(call.operands) if _find_source(value) in numbers]
            for place in places:
                number = numbers[_find_source(call.operands[place])]
                if number not in handles:
                    with ir.InsertionPoint.at_block_begin(block), main.location:
                        handles[number] = callback.build_argument_handle(number)
                call.operands[place] = handles[number]
            if places:
                name = regions.get_or_make_variant_with_handles(
                    symbol_attribute(call), [place - is_ordered for place in places]
                )
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
        identities = [op for op in list_operations(main) if op.name in _IDENTITY_OPERATIONS]
        has_dropped = [_drop_unused(op) for op in reversed(identities)]
        if handles:
            module.operation.attributes[callback.TAKES_ARGUMENTS] = ir.UnitAttr.get()
        return regions.finish() or any(has_dropped)


def _drop_unused(op: ir.Operation) -> bool:
    """Drop unused results, and their operands, of an identity operation.

    Args:
        op: an operation in ``_IDENTITY_OPERATIONS``, whose results are its operands. If it has
            unused results, it is replaced by an operation without them, or erased if no result is
            used.

    Returns:
        whether a result was unused.
    """
    used = [i for i, result in enumerate(op.results) if any(True for _ in result.uses)]
    if len(used) == len(op.results):
        return False
    if used:
        with ir.InsertionPoint(op), op.location:
            operands = [op.operands[i] for i in used]
            new = ir.Operation.create(
                op.name,
                results=types_of_values(operands),
                operands=operands,
                attributes=dict(op.attributes.items()),
            )
        for i, result in zip(used, new.results, strict=True):
            op.results[i].replace_all_uses_with(result)
    op.erase()
    return True


def _find_source(value: ir.Value) -> ir.Value:
    """Trace a value back through operations that return their operands unchanged.

    The operations are ``sdy.sharding_constraint`` and ``stablehlo.optimization_barrier``. A value
    that is not a result of such an operation is returned itself.
    """
    op = find_producer(value)
    if op is None or op.name not in _IDENTITY_OPERATIONS:
        return value
    return _find_source(op.operands[list(op.results).index(value)])
