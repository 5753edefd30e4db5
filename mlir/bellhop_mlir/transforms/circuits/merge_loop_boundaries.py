"""merge-loop-boundaries: gates at the end of an iteration merge with those that begin the next."""

from typing import Any

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._walk import named, replace, symbol
from bellhop_mlir.adjacent_gates import AdjacentGate, GateOperation, boundary, chains, with_angle
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate
from bellhop_mlir.passes import CircuitPass
from bellhop_mlir.transforms.circuits.cancel_inverses import are_inverse
from bellhop_mlir.transforms.circuits.merge_rotations import are_alike, constant_angle


class MergeLoopBoundaries(CircuitPass):
    """Cancel or merge gates at the end of a loop's body with those at its beginning.

    Before::

        %r = stablehlo.while(%s = %0, ...) ... do {
          %1 = "quantum.gate"(%s, ...) {name = "Hadamard", wires = array<i64: 0>, ...}
          %2 = "quantum.gate"(%1, ...) {name = "T", wires = array<i64: 0>, ...}
          %3 = "quantum.gate"(%2, ...) {name = "Hadamard", wires = array<i64: 0>, ...}
          stablehlo.return %3, ...
        }

    After::

        %a = "quantum.gate"(%0, ...) {name = "Hadamard", wires = array<i64: 0>, ...}
        %r = stablehlo.while(%s = %a, ...) ... do {
          %2 = "quantum.gate"(%s, ...) {name = "T", wires = array<i64: 0>, ...}
          stablehlo.return %2, ...
        }
        %b = "quantum.gate"(%r, ...) {name = "Hadamard", wires = array<i64: 0>, ...}

    The gate ``A`` that a body begins with is taken out: ``A`` comes before the loop and its
    inverse after it, and in the body ``A`` comes last, where it meets what was there.  That
    holds for any number of iterations, none included.  It is done for gates with constant
    parameters that undo each other, and for rotations about the same axis by constant angles.
    Those by angles that the program computes are merged before a module is made of it.

    A body that is a function of its own is changed if nobody else calls it.
    """

    def simplify(self, function: ir.Operation) -> bool:
        """Change one function in place; return whether it changed."""
        changed = [_merge(loop) for loop in named(function, "stablehlo.while")]
        return any(changed)


def _merge(loop: ir.Operation) -> bool:
    found = False
    state = quantum.state_type()
    for index, result in enumerate(loop.results):
        if result.type == state:
            while _merge_once(loop, index):
                found = True
    return found


def _merge_once(loop: ir.Operation, index: int) -> bool:
    """Take one gate out of the body of a loop whose state is carried under an index."""
    body = _body(loop, index)
    if body is None:
        return False
    for front, back in boundary(*body):
        meeting = meet_at_boundary(front, back)
        if meeting is None:
            continue
        inverse, merged = meeting
        _put_around(loop, index, front, inverse)
        state, params, offset, wires = back.op.operands
        if merged is not None:
            with ir.InsertionPoint(back.op), back.op.location:
                state = quantum.gate(state, params, offset, wires, merged)
        replace(back.op, [state])
        replace(front.op, [front.op.operands[0]])
        return True
    return False


def meet_at_boundary(front: AdjacentGate, back: AdjacentGate) -> tuple[Gate, Gate | None] | None:
    """Return the inverse of a gate in front, and what the one at the back becomes with it.

    Returns:
        None where both stay; the second is None where they undo one another.
    """
    if not front.is_constant() or not back.is_constant() or not front.acts_as(back):
        return None
    if are_inverse(back, front):
        return back.gate, None
    if not are_alike(front, back):
        return None
    angle = constant_angle(front)
    total = angle + constant_angle(back)
    inverse = with_angle(front.gate, -angle)
    return inverse, with_angle(back.gate, total) if total != 0.0 else None


def _body(loop: ir.Operation, index: int) -> tuple[list[GateOperation], list[GateOperation]] | None:
    """Return the gates that a loop's body begins with, and those that it ends with."""
    block = loop.regions[1].blocks[0]
    start = block.arguments[index]
    end = list(block.operations)[-1].operands[index]
    callee = _called_body(start, end)
    function = loop
    if callee is not None:
        function, start, end = callee
    first = last = None
    for chain in chains(function):
        if chain[0].op.operands[0] == start:
            first = chain
        if chain[-1].op.results[0] == end:
            last = chain
    return None if first is None or last is None else (first, last)


def _called_body(start: ir.Value, end: ir.Value) -> tuple[ir.Operation, ir.Value, ir.Value] | None:
    """Return the function that is all of a body, with its state at the beginning and the end."""
    calls = [use.owner.operation for use in start.uses]
    if len(calls) != 1 or calls[0].name != "func.call":
        return None
    (call,) = calls
    positions = [position for position, value in enumerate(call.results) if value == end]
    if not positions:
        return None
    module = call
    while module.name != "builtin.module":
        module = module.parent.operation
    name = symbol(call)
    if sum(symbol(other) == name for other in named(module, "func.call")) != 1:
        return None
    in_module: Any = ir.SymbolTable(module)[name]
    function = in_module.operation
    block = function.regions[0].blocks[0]
    argument = list(call.operands).index(start)
    returned = list(block.operations)[-1].operands[positions[0]]
    return function, block.arguments[argument], returned


def _put_around(loop: ir.Operation, index: int, before: GateOperation, after: Gate) -> None:
    """Put constant gates before and after a loop."""
    with ir.InsertionPoint(loop), before.op.location:
        loop.operands[index] = _constant_gate(loop.operands[index], before.gate)
    result = loop.results[index]
    users = [(use.owner, use.operand_number) for use in result.uses]
    with ir.InsertionPoint.after(loop), before.op.location:
        state = _constant_gate(result, after)
    for user, number in users:
        user.operands[number] = state


def _constant_gate(state: ir.Value, gate: Gate) -> ir.Value:
    """Build a gate with constant parameters that reads nothing of where it stood."""
    params = _constant("dense<> : tensor<0xf64>")
    not_differentiable = _constant("dense<-1> : tensor<i32>")
    wires = _constant("dense<> : tensor<0xi32>")
    return quantum.gate(state, params, not_differentiable, wires, gate)


def _constant(text: str) -> ir.Value:
    return stablehlo.constant(ir.Attribute.parse(text))
