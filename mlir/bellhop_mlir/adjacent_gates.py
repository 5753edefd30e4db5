"""Gates that follow one another on their wires, for what simplifies them.

The passes here do so in a module, where gates are operations, and ``bellhop`` where the program
computes their angles, while it traces them.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import named, replace
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, read_gate

# Gates whose wires, beginning with the numbered one, may stand in any order.
_SYMMETRIC_FROM = dict.fromkeys(
    (
        "SWAP",
        "ISWAP",
        "CZ",
        "CCZ",
        "ControlledPhaseShift",
        "MultiRZ",
        "IsingXX",
        "IsingYY",
        "IsingZZ",
    ),
    0,
) | {"CSWAP": 1}
# And those of which the first wires may: the controls.
_SYMMETRIC_UNTIL = {"Toffoli": 2}


@dataclass(frozen=True)
class AdjacentGate:
    """A gate, as its neighbours see it."""

    gate: Gate

    @property
    def wires(self) -> tuple[int, ...]:
        """All wires, controls too."""
        return self.gate.wires + self.gate.control_wires

    @property
    def angles(self) -> tuple[int | float, ...]:
        """The parameters: a constant is a float, another one its slot."""
        return tuple(
            slot if slot >= 0 else float(self.gate.constants[-1 - slot]) for slot in self.gate.slots
        )

    def is_constant(self) -> bool:
        """Tell whether all parameters are known."""
        return all(isinstance(angle, float) for angle in self.angles)

    def acts_as(self, other: "AdjacentGate") -> bool:
        """Tell whether both are one kind of gate, on the same wires with the same controls."""
        return _kind(self.gate) == _kind(other.gate)


@dataclass(frozen=True)
class GateOperation(AdjacentGate):
    """A gate and the operation that it is."""

    op: ir.Operation


AnyGate = TypeVar("AnyGate", bound=AdjacentGate)


def _kind(gate: Gate) -> tuple[object, ...]:
    name = gate.name.partition("@")[0]
    controls = frozenset(zip(gate.control_wires, gate.control_values, strict=True))
    name, _, word = name.partition(":")
    if word:
        # Each wire has its letter, in whatever order they are written.
        return name, frozenset(zip(gate.wires, word, strict=True)), controls
    first = _SYMMETRIC_FROM.get(name, len(gate.wires))
    until = _SYMMETRIC_UNTIL.get(name, 0)
    wires = (
        frozenset(gate.wires[:until]),
        gate.wires[until:first],
        frozenset(gate.wires[first:]),
    )
    return name, wires, controls


def chains(function: ir.Operation) -> Iterator[list[GateOperation]]:
    """Yield the gates of a function that follow one another without anything between."""
    chain: list[GateOperation] = []
    for op in named(function, "quantum.gate"):
        last = chain[-1].op if chain else None
        if last is not None and not (op.operands[0] == last.results[0] and op.block == last.block):
            yield chain
            chain = []
        chain.append(GateOperation(read_gate(op), op))
    if chain:
        yield chain


def simplify(
    chain: Iterable[AnyGate], meet: Callable[[AnyGate, AnyGate], list[AnyGate] | None]
) -> list[AnyGate]:
    """Let each gate meet the one before it on its wires, where that is on the same wires.

    Args:
        chain: gates, in order.
        meet: returns what two gates that meet become: both stay (None), both go, or one stands
            for both.

    Returns:
        the gates that are left, in an order in which they act as before.
    """
    kept: list[AnyGate | None] = []
    # For each wire the gates that act on it, by their places.
    on_wire: dict[int, list[int]] = {}
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire, so nothing meets across it.
            on_wire = {}
            kept.append(gate)
            continue
        pending = [gate]
        while pending:
            gate = pending.pop()
            previous = {on_wire[wire][-1] if on_wire.get(wire) else -1 for wire in gate.wires}
            place = previous.pop() if len(previous) == 1 else -1
            earlier = kept[place] if place >= 0 else None
            result = None
            if earlier is not None and {*earlier.wires} == {*gate.wires}:
                result = meet(earlier, gate)
            if result is None:
                for wire in gate.wires:
                    on_wire.setdefault(wire, []).append(len(kept))
                kept.append(gate)
                continue
            kept[place] = None
            for wire in gate.wires:
                on_wire[wire].pop()
            pending += result
    return [gate for gate in kept if gate is not None]


def simplify_chains(
    function: ir.Operation,
    meet: Callable[[GateOperation, GateOperation], list[GateOperation] | None],
) -> bool:
    """Simplify the gates of a function in place; return whether there are fewer then."""
    found = False
    for chain in list(chains(function)):
        kept = {id(placed.op): placed.gate for placed in simplify(chain, meet)}
        found = found or len(kept) < len(chain)
        for placed in chain:
            op, gate = placed.op, kept.get(id(placed.op))
            if gate is placed.gate:
                continue
            state, params, offset, wires = op.operands
            if gate is not None:
                with ir.InsertionPoint(op), op.location:
                    state = quantum.gate(state, params, offset, wires, gate)
            replace(op, [state])
    return found


def boundary(
    first: Sequence[AnyGate], last: Sequence[AnyGate]
) -> Iterator[tuple[AnyGate, AnyGate]]:
    """Yield the gates that meet where a loop begins its next iteration.

    Args:
        first: the gates that its body begins with.
        last: those that it ends with, in order; they may be the same.

    Yields:
        one from the front, and one from the back.
    """
    for front in _without_others_before(first):
        for back in _without_others_before(last[::-1]):
            if front is not back:
                yield front, back


def _without_others_before(chain: Iterable[AnyGate]) -> Iterator[AnyGate]:
    """Yield the gates that no other comes before on any of their wires."""
    touched: set[int] = set()
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire.
            return
        if not touched & {*gate.wires}:
            yield gate
        touched |= {*gate.wires}


def with_angle(gate: Gate, angle: float) -> Gate:
    """Return a rotation by a constant angle in the place of another."""
    return dataclasses.replace(gate, slots=(-1,), constants=(angle,), adjoint=False)
