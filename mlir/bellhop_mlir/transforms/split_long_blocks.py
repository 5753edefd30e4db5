"""split-long-blocks: straight-line code with many calls becomes a sequence of functions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import enclosing_function, fresh_symbol, operations, types

_BLOCKS_OF = ("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if")


@dataclass(frozen=True)
class SplitLongBlocks:
    """Move each hundred custom calls of a long block into a function of their own.

    Before, with ``calls=2``::

        %1 = stablehlo.custom_call @bellhop_callback(%table, %x) ...
        %2 = stablehlo.custom_call @bellhop_callback(%table, %1) ...
        %3 = stablehlo.custom_call @bellhop_callback(%table, %2) ...
        %4 = stablehlo.add %3, %1 : tensor<f64>
        %5 = stablehlo.custom_call @bellhop_callback(%table, %4) ...
        return %5 : tensor<f64>

    After::

        %0:2 = call @main_part_1(%table, %x) {mhlo.frontend_attributes = {inlineable = "false"}}
            : (tensor<2xui32>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
        %1 = call @main_part_2(%table, %0#0, %0#1) {...} : ...
        return %1 : tensor<f64>

    XLA's CPU backend plans the execution of a computation in time that is cubic in its calls
    (its transitive reduction of the graph of thunks): 10 000 callbacks took it 144 s, and take
    1 s in parts.  A function that may not be inlined is a computation of its own.

    Args:
        calls: custom calls in a part.  A block of no more than twice as many stays.

    Preconditions: none.  Constants are repeated where they are used, so that what XLA needs to
    see as constant it does.
    """

    name: ClassVar[str] = "split-long-blocks"

    calls: int = 100

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        long = [block for block in _blocks(module) if _calls(block) > 2 * self.calls]
        for block in long:
            parts = self._parts(block)
            _connect(parts)
            # From the end: what a part takes is still what it was.
            for number, part in reversed(list(enumerate(parts[:-1], 1))):
                _outline(module, part, number)
        return bool(long)

    def _parts(self, block: ir.Block) -> list["_Part"]:
        """Return the parts of a block; what follows the last of them stays in the block."""
        parts = [_Part()]
        calls = 0
        for op in block.operations:
            if calls == self.calls:
                parts.append(_Part())
                calls = 0
            parts[-1].operations.append(op.operation)
            calls += op.operation.name == "stablehlo.custom_call"
        return parts


@dataclass
class _Part:
    operations: list[ir.Operation] = field(default_factory=list)
    # In order of their use; the value says nothing.
    inputs: dict[ir.Value, None] = field(default_factory=dict)
    constants: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    outputs: dict[ir.Value, None] = field(default_factory=dict)


def _blocks(module: ir.Module) -> Iterator[ir.Block]:
    for op in operations(module.operation):
        if op.name in _BLOCKS_OF:
            for region in op.regions:
                yield from region.blocks


def _calls(block: ir.Block) -> int:
    return sum(op.operation.name == "stablehlo.custom_call" for op in block.operations)


def _connect(parts: list[_Part]) -> None:
    """Find out what each part takes from outside, and what of it is used after it."""
    home: dict[ir.Value, _Part] = {}
    constants: dict[ir.Value, ir.Operation] = {}
    for part in parts:
        inside: set[ir.Value] = set()
        for op in part.operations:
            for each in (op, *(operations(op) if len(op.regions) else ())):
                for value in each.operands:
                    if value in inside:
                        continue
                    if value in constants and home[value] is not part:
                        part.constants[value] = constants[value]
                    elif home.get(value) is not part:
                        part.inputs[value] = None
                        if value in home:
                            home[value].outputs[value] = None
                for region in each.regions:
                    for block in region.blocks:
                        inside.update(block.arguments)
                if each is not op:
                    inside.update(each.results)
            for result in op.results:
                home[result] = part
                if op.name == "stablehlo.constant":
                    constants[result] = op


def _outline(module: ir.Module, part: _Part, number: int) -> None:
    first = part.operations[0]
    inputs, outputs = list(part.inputs), list(part.outputs)
    symbol = fresh_symbol(module, f"{enclosing_function(first)}_part_{number}")
    with first.location:
        function = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(symbol),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(
                    ir.FunctionType.get(types(inputs), types(outputs))
                ),
            },
            ip=ir.InsertionPoint(module.body),
        )
        body = function.regions[0].blocks.append(*types(inputs))
        keep = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
        call = ir.Operation.create(
            "func.call",
            results=types(outputs),
            operands=inputs,
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(symbol),
                "mhlo.frontend_attributes": keep,
            },
            ip=ir.InsertionPoint(first),
        )
        inner: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
        for old, new in zip(outputs, call.results, strict=True):
            old.replace_all_uses_with(new)
            inner[new] = old
        with ir.InsertionPoint(body):
            for value, constant in part.constants.items():
                inner[value] = constant.clone().results[0]
            end = ir.Operation.create("func.return", operands=outputs)
    for op in part.operations:
        op.move_before(end)
        for each in (op, *(operations(op) if len(op.regions) else ())):
            for index, value in enumerate(each.operands):
                if value in inner:
                    each.operands[index] = inner[value]
