"""overlap-regions: regions run beside circuits that do not need them."""

from collections.abc import Iterator
from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._dependence import Dependence
from bellhop_mlir._outline import inline_callers
from bellhop_mlir._purity import impure_functions, is_pure
from bellhop_mlir._walk import blocks_in, named, replace, symbol, types
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass

_LOOPS_AND_BRANCHES = ("stablehlo.while", "stablehlo.if", "stablehlo.case")


class OverlapRegions(Pass):
    """Split the call of a region in two halves around circuits that neither needs nor feeds it.

    Before::

        %s0 = "quantum.begin"(%x) {...} : (tensor<f64>) -> tensor<2xui32>
        %s1, %e = func.call @circuit(%s0, %x) ...
        "quantum.end"(%s1) : (tensor<2xui32>) -> ()
        %y = "callback.call"(%x) {callee = @region, kind = "pure"} ...

    After::

        %t = "callback.call"(%x) {callee = @region, kind = "start"} ...
        %s0 = "quantum.begin"(%x, %t) {...} : (tensor<f64>, tensor<2xui32>) -> tensor<2xui32>
        %s1, %e = func.call @circuit(%s0, %x) ...
        "quantum.end"(%s1) : (tensor<2xui32>) -> ()
        %y = "callback.call"(%t, %s1) {callee = @region, kind = "done"} ...

    Data dependence is the order: the circuit begins after the ticket is there, and the results
    are asked for after its last state is.  Nothing else says so to XLA, whose CPU backend runs
    the operations of a small program one after another.  A loop or a conditional that holds
    circuits is like one; functions that hold circuits and are called once are inlined.

    Preconditions: convert-accelerate-to-runtime ran before, and the declarations of regions
    still name their modules.
    """

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        regions = {
            name
            for name, declaration in callback.declarations(module).items()
            if declaration.module is not None
        }
        if not regions or not named(module.operation, "quantum.begin"):
            return False
        inline_callers(module, "quantum.begin")
        impure = impure_functions(module)
        # All of them first: splitting erases operations, though none that hold blocks.
        for block in blocks_in(module.operation):
            while _split_one(block, regions, impure):
                pass
        return True


@dataclass(frozen=True)
class _CircuitSpan:
    """A circuit, or what holds circuits, in a block."""

    first: int
    last: int
    places: frozenset[int]
    begins: tuple[ir.Operation, ...]
    anchor: ir.Value


def _circuits(dependence: Dependence) -> Iterator[_CircuitSpan]:
    for i, op in enumerate(dependence.operations):
        if op.name == "quantum.begin":
            of_it = dependence.after(i)
            ends = [j for j in of_it if dependence.operations[j].name == "quantum.end"]
            if ends:
                end = dependence.operations[ends[0]]
                places = frozenset({j for j in of_it if j <= ends[0]} | {i})
                yield _CircuitSpan(i, ends[0], places, (op,), end.operands[0])
        elif op.name in _LOOPS_AND_BRANCHES and len(op.results):
            begins = named(op, "quantum.begin")
            if begins:
                yield _CircuitSpan(i, i, frozenset({i}), tuple(begins), op.results[0])


def _split_one(block: ir.Block, regions: set[str], impure: set[str]) -> bool:
    calls = [
        op.operation
        for op in block.operations
        if op.operation.name == "callback.call" and symbol(op.operation) in regions
    ]
    if not any(callback.CallOp(op).traits.is_pure for op in calls):
        return False
    dependence = Dependence(block)
    ops = dependence.operations
    circuits = list(_circuits(dependence))
    for place, op in enumerate(ops):
        if op not in calls or not callback.CallOp(op).traits.is_pure:
            continue
        before, after = dependence.before(place), dependence.after(place)
        beside: list[_CircuitSpan] = []
        earlier: set[int] = set()
        later: set[int] = set()
        for circuit in circuits:
            if before & circuit.places or after & circuit.places:
                continue
            start = min([place, circuit.first, *(c.first for c in beside)])
            end = max([place, circuit.last, *(c.last for c in beside)])
            up = {i for i in before if i > start}
            down = {i for i in after if i < end}
            if all(is_pure(ops[i], impure) for i in up | down):
                beside.append(circuit)
                earlier, later = up, down
        if beside:
            _split(ops, place, beside, earlier, later)
            return True
    return False


def _split(
    ops: list[ir.Operation],
    place: int,
    beside: list[_CircuitSpan],
    earlier: set[int],
    later: set[int],
) -> None:
    call = callback.CallOp(ops[place])
    first = ops[min(place, *(circuit.first for circuit in beside))]
    last = ops[max(place, *(circuit.last for circuit in beside))]
    ticket_type = ir.Type.parse(callback.TICKET)
    with ir.InsertionPoint(first), call.operation.location:
        start = callback.call(call.callee, "start", list(call.operands), [ticket_type])
    ticket = start.operation.results[0]
    for i in sorted(earlier):
        ops[i].move_before(start.operation)
    anchors = [circuit.anchor for circuit in beside]
    with ir.InsertionPoint(first), call.operation.location:
        done = callback.call(call.callee, "done", [ticket, *anchors], types(call.results))
    done.operation.move_after(last)
    after = done.operation
    for i in sorted(later):
        ops[i].move_after(after)
        after = ops[i]
    replace(call.operation, list(done.operation.results))
    for circuit in beside:
        for begin in circuit.begins:
            _tie(begin, ticket)


def _tie(begin: ir.Operation, ticket: ir.Value) -> None:
    with ir.InsertionPoint(begin), begin.location:
        tied = ir.Operation.create(
            "quantum.begin",
            results=types(begin.results),
            operands=[*begin.operands, ticket],
            attributes=dict(begin.attributes.items()),
        )
    replace(begin, list(tied.results))
