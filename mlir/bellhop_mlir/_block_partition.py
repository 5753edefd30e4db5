"""Partition of a block into groups of operations, which become functions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import (
    find_enclosing_function,
    list_operations,
    make_unique_symbol,
    replace_operands,
    types_of_values,
    walk_operations,
)

# Emits a call, given symbol, operands and result types; returns the results.
Call = Callable[[str, list[ir.Value], list[ir.Type]], list[ir.Value]]

# Attribute of a call with hints for XLA, among them that the call must not be inlined.
_HINTS = "mhlo.frontend_attributes"
_INLINEABLE = "inlineable"

_OPS_WITH_BLOCKS = ("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if")


@dataclass
class OperationGroup:
    """Operations of one block that a pass may move into a function together.

    A pass partitions a block into groups; `compute_inputs_and_outputs` then fills in all attributes
    except ``operations``.

    Attributes:
        operations: the operations, in program order.
        inputs: values that the operations use and that are defined outside of the group, in order
            of first use; a dictionary whose keys are an ordered set.
        constants: values of ``stablehlo.constant`` operations in earlier groups that the operations
            use, with these operations. They are copied instead of passed as inputs.
        outputs: results of the operations that later groups use; an ordered set like ``inputs``.
    """

    operations: list[ir.Operation] = field(default_factory=list)
    inputs: dict[ir.Value, None] = field(default_factory=dict)
    constants: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    outputs: dict[ir.Value, None] = field(default_factory=dict)


def find_blocks(module: ir.Module) -> Iterator[ir.Block]:
    """Yield the blocks of a module that passes may partition, outermost first.

    They are the blocks of functions, loops (condition and body) and conditionals. Blocks inside of
    nested modules, and of operations such as ``stablehlo.reduce``, are not among them.
    """
    for op in list_operations(module.operation):
        if op.name in _OPS_WITH_BLOCKS:
            for region in op.regions:
                yield from region.blocks


def compute_inputs_and_outputs(groups: Sequence[OperationGroup]) -> None:
    """Fill in the inputs, constants and outputs of each group of operations.

    Args:
        groups: a partition of one block: each operation is in one group, and a group uses only its
            own results and the results of earlier groups. Changed in place.
    """
    home: dict[ir.Value, OperationGroup] = {}
    constants: dict[ir.Value, ir.Operation] = {}
    for group in groups:
        inside: set[ir.Value] = set()
        for op in group.operations:
            for each in walk_operations(op):
                for value in each.operands:
                    if value in inside:
                        continue
                    if value in constants and home[value] is not group:
                        group.constants[value] = constants[value]
                    elif home.get(value) is not group:
                        group.inputs[value] = None
                        if value in home:
                            home[value].outputs[value] = None
                for region in each.regions:
                    for block in region.blocks:
                        inside.update(block.arguments)
                if each is not op:
                    inside.update(each.results)
            for result in op.results:
                home[result] = group
                if op.name == "stablehlo.constant":
                    constants[result] = op


def outline_group(module: ir.Module, group: OperationGroup, stem: str, **attributes: str) -> None:
    """Move operations into a function that XLA does not inline, and call it.

    The call is inserted before the group's first operation, and replaces the group's outputs. If a
    block has several groups to outline, outline the last group first: then the inputs that were
    computed for earlier groups stay valid.

    Args:
        module: module of the operations, to which the function is added.
        group: the operations, after `compute_inputs_and_outputs`.
        stem: suffix of the function's name: ``part_1`` in ``@main`` makes ``@main_part_1``.
        **attributes: further hints for XLA, which become strings in the call's
            ``mhlo.frontend_attributes``, such as ``xla_cpu_small_call="true"``.
    """
    first = group.operations[0]
    told = {_INLINEABLE: "false", **attributes}
    texts = {name: ir.StringAttr.get(value) for name, value in told.items()}

    def call(symbol: str, operands: list[ir.Value], results: list[ir.Type]) -> list[ir.Value]:
        """Emit a ``func.call`` with the hints for XLA; return its results."""
        called = func.CallOp(results, symbol, operands)
        called.attributes[_HINTS] = ir.DictAttr.get(texts)
        return list(called.results)

    with first.location:
        move_into_function(module, group, f"{find_enclosing_function(first)}_{stem}", first, call)


def is_outlined_call(call: ir.Operation) -> bool:
    """Return whether a ``func.call`` was made by `outline_group`.

    Its attribute ``mhlo.frontend_attributes`` then has the entry ``inlineable``.
    """
    return _HINTS in call.attributes and _INLINEABLE in ir.DictAttr(call.attributes[_HINTS])


def move_into_function(
    module: ir.Module, group: OperationGroup, name: str, place: ir.Operation, call: Call
) -> None:
    """Move a group of operations into a new private function, and call the function.

    The function takes the group's inputs and returns its outputs, which the results of the call
    replace outside of the function. Constants are copied into it.

    Args:
        module: module to which the function is added.
        group: the operations, after `compute_inputs_and_outputs`.
        name: symbol of the function, which gets a number if the module has the symbol already.
        place: operation before which the call is inserted; may be one of the group's operations.
        call: emits the call at the insertion point, as ``call(symbol, operands, result_types)``,
            and returns its results, one for each output.
    """
    inputs, outputs = list(group.inputs), list(group.outputs)
    symbol = make_unique_symbol(module, name)
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(
            symbol, (types_of_values(inputs), types_of_values(outputs)), visibility="private"
        )
    body = function.regions[0].blocks.append(*types_of_values(inputs))
    with ir.InsertionPoint(place):
        results = call(symbol, inputs, types_of_values(outputs))
    inner: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    for old, new in zip(outputs, results, strict=True):
        old.replace_all_uses_with(new)
        inner[new] = old
    with ir.InsertionPoint(body):
        for value, constant in group.constants.items():
            inner[value] = constant.clone().results[0]
        end = func.ReturnOp(outputs)
    for op in group.operations:
        op.move_before(end)
        replace_operands(op, inner)


def keep_in_place(group: OperationGroup) -> None:
    """Copy the constants that a group of operations uses to the beginning of the group.

    Used for groups that stay in their block: the original constants may move into a function with
    an earlier group.

    Args:
        group: the operations, after `compute_inputs_and_outputs`.
    """
    copies: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(group.operations[0]):
        for value, constant in group.constants.items():
            copies[value] = constant.clone().results[0]
    for op in group.operations:
        replace_operands(op, copies)
