"""Gates that follow one another on their wires, for the passes that simplify them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import named
from bellhop_mlir.dialects.quantum import Gate, read_gate

# Gates whose wires, beginning with the numbered one, may stand in any order.
_SYMMETRIC_FROM = {
    "SWAP": 0,
    "ISWAP": 0,
    "CZ": 0,
    "CCZ": 0,
    "ControlledPhaseShift": 0,
    "MultiRZ": 0,
    "IsingXX": 0,
    "IsingYY": 0,
    "IsingZZ": 0,
    "CSWAP": 1,
}
# And those of which the first wires may: the controls.
_SYMMETRIC_UNTIL = {"Toffoli": 2}


@dataclass(frozen=True)
class Placed:
    """A gate and the operation that it is."""

    op: ir.Operation
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

    def acts_as(self, other: "Placed") -> bool:
        """Tell whether both are one kind of gate, on the same wires with the same controls."""
        return _kind(self.gate) == _kind(other.gate)


def _kind(gate: Gate) -> tuple[object, ...]:
    name = gate.name.partition("@")[0]
    first = _SYMMETRIC_FROM.get(name, len(gate.wires))
    until = _SYMMETRIC_UNTIL.get(name, 0)
    wires = (
        frozenset(gate.wires[:until]),
        gate.wires[until:first],
        frozenset(gate.wires[first:]),
    )
    return name, wires, frozenset(zip(gate.control_wires, gate.control_values, strict=True))


def chains(function: ir.Operation) -> Iterator[list[Placed]]:
    """Yield the gates of a function that follow one another without anything between."""
    chain: list[Placed] = []
    for op in named(function, "quantum.gate"):
        last = chain[-1].op if chain else None
        if last is not None and not (op.operands[0] == last.results[0] and op.block == last.block):
            yield chain
            chain = []
        chain.append(Placed(op, read_gate(op)))
    if chain:
        yield chain


# What two gates that meet become: both stay (None), both go, or one stands for both.
Meeting = Callable[[Placed, Placed], list[Placed] | None]


def simplify(chain: Iterable[Placed], meet: Meeting) -> tuple[list[Placed], bool]:
    """Let each gate meet the one before it on its wires, where that is on the same wires.

    Returns:
        the gates that are left, in an order in which they act as before, and whether that are
        fewer.
    """
    kept: list[Placed | None] = []
    # For each wire the gates that act on it, by their places.
    on_wire: dict[int, list[int]] = {}
    changed = False
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
            changed = True
            kept[place] = None
            for wire in gate.wires:
                on_wire[wire].pop()
            pending += result
    return [gate for gate in kept if gate is not None], changed


def with_angle(placed: Placed, angle: float) -> Placed:
    """Return a rotation by a constant angle in the place of another."""
    gate = replace(placed.gate, slots=(-1,), constants=(angle,), adjoint=False)
    return Placed(placed.op, gate)
