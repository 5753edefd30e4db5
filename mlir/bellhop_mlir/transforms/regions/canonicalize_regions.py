"""canonicalize-regions: drop operands and results of regions that need no transfer."""

from collections.abc import Hashable

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import drop_unused_functions, prune_signature
from bellhop_mlir._op_cost import is_constant
from bellhop_mlir._walk import find_functions, find_operations, list_operations, make_unique_symbol
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass


class CanonicalizeRegions(Pass):
    """Move constants into the regions that use them, and pass equal operands once.

    A region is a ``callback.accelerate``, which runs a function on another device.

    Before::

        %c = stablehlo.constant dense<2.0> : tensor<f64>
        %y = "callback.accelerate"(%x, %c, %x) {callee = @accelerate_cuda_0__f, ...} ...
        func.func private @accelerate_cuda_0__f(%a: tensor<f64>, %b: tensor<f64>,
                                                %c: tensor<f64>) -> tensor<f64> { ... }

    After::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f_0, ...} ...
        func.func private @accelerate_cuda_0__f_0(%a: tensor<f64>) -> tensor<f64> {
          %b = stablehlo.constant dense<2.0> : tensor<f64>
          ...
        }

    A constant inside of a region is part of its executable, and therefore on the device as soon as
    the program is compiled; an operand would be copied at each call.  Unused results are not
    fetched, except a token: the token of the last effect of a program is unused.

    Preconditions: none.
    """

    needs = ("callback.accelerate",)

    def apply(self, module: ir.Module) -> bool:
        """Drop needless operands and results of regions; return False if there are none.

        If some are dropped, unused constants of the module are erased too.
        """
        specialised: dict[Hashable, str] = {}
        for op in find_operations(module.operation, "callback.accelerate"):
            _specialise_region(module, callback.AccelerateOp(op), specialised)
        if specialised:
            drop_unused_functions(module)
            _drop_unused_constants(module)
        return bool(specialised)


def _specialise_region(
    module: ir.Module, region: callback.AccelerateOp, specialised: dict[Hashable, str]
) -> None:
    """Replace a ``callback.accelerate`` by one without needless operands and results.

    Constant and repeated operands, and unused results, are dropped; of equal operands the first is
    kept. Nothing happens if there is nothing to drop.

    Args:
        module: the module.
        region: the ``callback.accelerate``, which is erased.
        specialised: symbols of the functions made so far, by callee, operands and used results; a
            new function is added.
    """
    operands = list(region.operands)
    results = list(region.results)
    constants = [is_constant(value) for value in operands]
    first = [operands.index(value) for value in operands]
    token = next((i for i, result in enumerate(results) if callback.is_token(result.type)), None)
    used = [i for i, result in enumerate(results) if i == token or any(True for _ in result.uses)]
    kept = [i for i in range(len(operands)) if not constants[i] and first[i] == i]
    if len(kept) == len(operands) and len(used) == len(results):
        return
    key = (
        region.callee,
        tuple(
            _value_key(value) if constant else i
            for value, constant, i in zip(operands, constants, first, strict=True)
        ),
        tuple(used),
    )
    if key not in specialised:
        specialised[key] = _make_specialised(module, region, kept, first, used)
    outputs = [results[i].type for i in used]
    with ir.InsertionPoint(region.operation), region.operation.location:
        new = callback.build_accelerate(
            specialised[key], region.device, [operands[i] for i in kept], outputs
        )
    for i, value in zip(used, list(new.results), strict=True):
        results[i].replace_all_uses_with(value)
    region.operation.erase()


def _value_key(value: ir.Value) -> Hashable:
    """Return a dictionary key of a constant; equal constants have equal keys.

    ``value`` is a constant in the sense of `is_constant`.
    """
    op = value.owner.operation
    try:
        attributes: Hashable = tuple(op.attributes.items())
    except TypeError:
        # jaxlib has no class for an array of complex numbers.
        attributes = str(op)
    return op.name, value.type, attributes, tuple(map(_value_key, op.operands))


def _make_specialised(
    module: ir.Module,
    region: callback.AccelerateOp,
    kept: list[int],
    first: list[int],
    used: list[int],
) -> str:
    """Copy a region's function without some of its arguments and results.

    Args:
        module: the module, to which the function is added.
        region: the ``callback.accelerate`` whose function is copied.
        kept: indices of the operands that the new function takes. For other operands, it uses an
            equal operand or its own copy of the constant.
        first: for each operand, index of the first equal operand.
        used: indices of the results that the new function returns.

    Returns:
        the symbol of the new function.
    """
    old = find_functions(module)[region.callee]
    name = make_unique_symbol(module, region.callee)
    function = old.clone(ip=ir.InsertionPoint(old))
    function.attributes["sym_name"] = ir.StringAttr.get(name)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    block = function.regions[0].blocks[0]
    start = next(iter(block.operations)).operation
    operands = list(region.operands)
    arguments = list(block.arguments)
    for i, value in enumerate(operands):
        if i in kept:
            continue
        arguments[i].replace_all_uses_with(
            arguments[first[i]] if first[i] in kept else _copy_constant(value, start)
        )
    prune_signature(function, kept, used)
    return name


def _copy_constant(value: ir.Value, before: ir.Operation) -> ir.Value:
    """Copy a constant and the operations that compute it; return the copied value.

    Args:
        value: a value for which `is_constant` holds.
        before: operation before which the copies are inserted.
    """
    op = value.owner.operation
    operands = [_copy_constant(operand, before) for operand in op.operands]
    copy = op.clone(ip=ir.InsertionPoint(before))
    for i, operand in enumerate(operands):
        copy.operands[i] = operand
    return copy.results[0]


def _drop_unused_constants(module: ir.Module) -> None:
    """Erase unused constants, with reshapes and conversions of constants, in all functions."""
    for op in reversed(list_operations(module.operation)):
        if len(op.results) == 1 and not list(op.results[0].uses) and is_constant(op.results[0]):
            op.erase()
